// A run's configuration, as a user or a DeepSpeed installation wrote it.
#include "runtime/config/config.h"

#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/target.h"

namespace zrt::fuzz {
namespace {

bool accepts(std::string_view input) {
  runtime::Config config;
  try {
    config = runtime::parse_config(std::string(input), "fuzz.json", {}, 2);
  } catch (const core::ConfigError& error) {
    // A line for each problem, of which 60 are shown, beside the first line and the last.
    const std::string_view text = error.what();
    require(std::count(text.begin(), text.end(), '\n') <= 61, "a message is no copy of the file");
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      require(end - begin < 4000, "a line of a message is no copy of the file");
    }
    return false;
  }
  // The configuration that a run writes down re-creates it.
  const std::filesystem::path file = folder() / "config.resolved.json";
  write(file, runtime::resolved_json(config));
  runtime::load_resolved(file);
  return true;
}

std::map<std::string, std::string> seeds() {
  const std::string small = R"({"train_batch_size": 2, "model": {"preset": "gpt2-tiny"}})";
  const std::string large = R"({ # seed
  "train_batch_size": 16, "gradient_accumulation_steps": 2, gradient_clipping: 0.5,
  "zero_optimization": {"stage": 3, "prefetch_bucket_size": "5_000", "overlap_comm": null, "offload_param": null,
                        "offload_optimizer": {"device": "none"}},
  "bfloat16": {"enabled": "yes"}, 'communication_data_type': "fp32", // types
  "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.95]}},
  "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": "auto", "warmup_num_steps": 10,}}
  "model": {"layers": 2, "hidden": 32, "heads": 2, "sequence": 16, "vocab": 300, "dropout": 0.1},
  "aio": {"thread_count": 2}, "data": {"train": [[1, "caf\u00e9", "fr"], [2, "\ud83d\ude00"]]}, /* ours */
  "parallel": {"reduce_every": 1}, "memory": {"unit_bytes": 4096}, "run": {"steps": 9, "name": "x"}
})";
  return {{"small", small}, {"large", large}};
}

}  // namespace

const Target config{"config",
                    accepts,
                    seeds,
                    {"\"train_batch_size\"",
                     "\"zero_optimization\"",
                     "\"stage\"",
                     "\"optimizer\"",
                     "\"scheduler\"",
                     "\"params\"",
                     "\"type\"",
                     "\"bf16\"",
                     "\"fp16\"",
                     "\"enabled\"",
                     "\"model\"",
                     "\"data\"",
                     "\"parallel\"",
                     "\"memory\"",
                     "\"run\"",
                     "\"preset\"",
                     "\"auto\"",
                     "null",
                     "true",
                     "false",
                     "1e999",
                     "9223372036854775807",
                     "9223372036854775808",
                     "-1",
                     "\\u",
                     "\\ud83d\\ude00",
                     "/*",
                     "*/",
                     "//",
                     "#",
                     "{}",
                     "[]",
                     "'",
                     "\xEF\xBB\xBF"}};

}  // namespace zrt::fuzz
