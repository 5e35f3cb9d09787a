# The data module, a part of zrt_models; paths are relative to models/. Needs ZLIB::ZLIB and nlohmann_json.
set(ZRT_DATA_SOURCES
  data/mapped_file.cpp data/output_file.cpp
  data/indexed_dataset.cpp data/indexed_dataset_writer.cpp data/dataset_meta.cpp
  data/numpy_random.cpp data/sample_index.cpp data/gpt_dataset.cpp data/blended_dataset.cpp
  data/tokenizer.cpp
  data/text_reader.cpp data/input_files.cpp data/document_stream.cpp data/validation_split.cpp data/build.cpp)
