// A token file of llm.c.
#include "core/error.h"
#include "runtime/data/llmc_dataset.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

bool accepts(std::string_view input) {
  const std::filesystem::path path = folder() / "tokens.bin";
  write(path, input);
  try {
    const runtime::data::LlmcDataset dataset(path.string());
    int64_t tokens = 0;
    for (int64_t document = 0; document < dataset.sequences(); ++document) {
      std::vector<int32_t> out(static_cast<size_t>(dataset.length(document)));
      tokens += dataset.length(document);
      try {
        dataset.read(document, 0, dataset.length(document), 1 << 20, out.data());
      } catch (const core::DataError&) {  // a token outside the vocabulary
      }
    }
    require(tokens == dataset.tokens(), "a file has the tokens of its documents");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

template <class T>
std::string seed(int32_t magic, int32_t version, const std::vector<T>& tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = static_cast<int32_t>(tokens.size());
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * sizeof header[0]);
  return bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T));
}

std::map<std::string, std::string> seeds() {
  return {{"gpt2", seed<uint16_t>(20240520, 1, {50256, 1, 2, 50256, 3})},
          {"llama3", seed<uint32_t>(20240801, 7, {128000, 1, 2, 128000})}};
}

}  // namespace

const Target llmc{
    "llmc",
    accepts,
    seeds,
    {std::string("\x88\xda\x34\x01", 4), std::string("\xa1\xdb\x34\x01", 4), std::string("\x50\xc4", 2),
     std::string("\x00\xf4\x01\x00", 4), std::string("\xff\xff\xff\xff", 4), std::string("\xff\xff\xff\x7f", 4)}};

}  // namespace zrt::fuzz
