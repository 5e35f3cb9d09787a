// A file of ids without a header, as `zrt data import` reads it. The first byte of an input says the size of an id.
#include "core/error.h"
#include "runtime/data/foreign.h"
#include "runtime/data/indexed_dataset.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

namespace data = runtime::data;

bool accepts(std::string_view input) {
  if (input.empty()) return false;
  const std::filesystem::path path = folder() / "ids.raw", out = folder() / "imported";
  const bool wide = (input[0] & 1) != 0;
  write(path, input.substr(1));
  data::ImportOptions options;
  options.inputs = {path.string()}, options.out = out.string(), options.id_bytes = wide ? 4 : 2, options.force = true;
  if ((input[0] & 2) != 0) {
    options.tokenizer = "bytes";
  } else {
    options.vocabulary = wide ? 100'000 : 60'000, options.eod = 0;
  }
  try {
    const data::BuiltPart part = data::import_ids(options);
    const data::IndexedDataset dataset(out.string());
    const auto width = wide ? 4 : 2;
    require(dataset.tokens() * width + 1 == static_cast<int64_t>(input.size()),
            "every id of the file is in the dataset");
    for (int64_t i = 0; i < dataset.sequences(); ++i) {
      std::vector<int32_t> ids(static_cast<size_t>(dataset.length(i)));
      dataset.read(i, 0, dataset.length(i), 100'000, ids.data());
      require(!ids.empty(), "a document has ids");
    }
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

template <class T>
std::string ids_of(char kind, const std::vector<T>& ids) {
  return kind + std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T));
}

std::map<std::string, std::string> seeds() {
  return {{"u16", ids_of<uint16_t>(0, {1, 2, 0, 3, 0, 0, 7})},
          {"u32", ids_of<uint32_t>(1, {99'999, 0, 3})},
          {"bytes", ids_of<uint16_t>(2, {'a', 'b', 256, 'c'})}};
}

}  // namespace

const Target raw_ids{
    "raw_ids", accepts, seeds, {std::string("\0\1", 2), "MMIDIDX", "\x93NUMPY", std::string("\x88\xda\x34\x01", 4)}};

}  // namespace zrt::fuzz
