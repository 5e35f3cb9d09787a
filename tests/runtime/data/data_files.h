// Temporary folders and whole files for the tests of datasets.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/data/indexed_dataset.h"
#include "runtime/data/indexed_dataset_writer.h"

namespace zrt::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zrt_data_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

using DocumentList = std::vector<std::vector<int32_t>>;

inline void write_dataset(const std::string& prefix, int64_t vocabulary, const DocumentList& documents) {
  zrt::runtime::data::IndexedDatasetWriter writer(prefix, vocabulary);
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.seal();
  writer.publish();
}

inline DocumentList read_dataset(const std::string& prefix, int64_t vocabulary) {
  const zrt::runtime::data::IndexedDataset data(prefix);
  DocumentList documents;
  for (int64_t i = 0; i < data.sequences(); ++i) {
    documents.emplace_back(static_cast<size_t>(data.length(i)));
    data.read(i, 0, data.length(i), vocabulary, documents.back().data());
  }
  return documents;
}

// The message of the E that `call` throws; empty when it throws nothing.
template <class E, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace zrt::test
