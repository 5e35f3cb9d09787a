// PREFIX.meta.json, the description beside a dataset.
#include "runtime/data/dataset_meta.h"

#include "core/error.h"
#include "runtime/data/indexed_format.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

bool accepts(std::string_view input) {
  const std::string prefix = (folder() / "described").string();
  const auto parsed = [&](std::string_view text) {
    write(runtime::data::meta_path(prefix), text);
    return runtime::data::read_meta(prefix);
  };
  try {
    const auto meta = parsed(input);
    require(meta.has_value(), "a file that is there is read");
    const std::string text = runtime::data::to_json(*meta);
    require(runtime::data::to_json(*parsed(text)) == text, "what was read, written and read again is the same");
    return true;
  } catch (const core::DataError&) {
    return false;
  }
}

std::map<std::string, std::string> seeds() {
  runtime::data::DatasetMeta meta{"bytes", 257, 3, 1000, 900, 4.5};
  const std::string bytes = runtime::data::to_json(meta);
  meta.tokenizer = "sentencepiece", meta.tokenizer_file = "corpus.model", meta.tokenizer_xxh3 = "0123456789abcdef";
  meta.language = "fr";
  return {{"bytes", bytes}, {"sentencepiece", runtime::data::to_json(meta)}};
}

}  // namespace

const Target dataset_meta{
    "dataset_meta",
    accepts,
    seeds,
    {"\"tokenizer\"", "\"vocabulary\"", "\"documents\"", "\"tokens\"", "\"bytes\"", "\"language\"", "../", "/",
     "\\u0000", "9223372036854775807", "9223372036854775808", "-1", "1e999", "null", "{}", "[]", "true"}};

}  // namespace zrt::fuzz
