# The data module, a part of zrt_models; paths are relative to models/. Needs ZLIB, nlohmann_json and SentencePiece.
set(ZRT_DATA_SOURCES
  data/mapped_file.cpp data/output_file.cpp
  data/indexed_dataset.cpp data/llmc_dataset.cpp data/token_documents.cpp data/indexed_dataset_writer.cpp data/dataset_meta.cpp data/dataset_tokenizer.cpp
  data/numpy_random.cpp data/sample_index.cpp data/gpt_dataset.cpp data/blended_dataset.cpp
  data/tokenizer.cpp data/utf8.cpp data/sentencepiece_fields.cpp data/sentencepiece_tokenizer.cpp
  data/sentencepiece_training.cpp
  data/text_reader.cpp data/input_files.cpp data/document_stream.cpp data/validation_split.cpp data/duplicates.cpp data/build.cpp)
