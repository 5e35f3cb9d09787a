# Tests of models/data.
zrt_test(models/data_indexed LINK zrt::models)
zrt_test(models/data_corruption LINK zrt::models)
zrt_test(models/data_numpy LINK zrt::models)
zrt_test(models/data_samples LINK zrt::models)
zrt_test(models/data_build LINK zrt::models ZLIB::ZLIB)
zrt_test(models/data_sentencepiece LINK zrt::models)
zrt_test(models/data_dedup LINK zrt::models)
zrt_test(models/data_llmc LINK zrt::models)
