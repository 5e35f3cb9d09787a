// The sections that DeepSpeed ignores.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/spec.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key own_root_keys[] = {
    {"model", t_object, "null", Handling::implemented},
    {"data", t_object, "null", Handling::implemented},
    {"parallel", t_object, "null", Handling::implemented},
    {"memory", t_object, "null", Handling::implemented},
    {"run", t_object, "null", Handling::implemented},
    {"fp8", t_object, "null", Handling::implemented},
    {"parameter_groups", t_list | t_null, "null", Handling::implemented},
};

constexpr Key fp8_keys[] = {
    {"enabled", t_bool, "false", Handling::implemented},
};

// Of every model; what only some types have stands in their specs.
constexpr Key model_keys[] = {
    {"type", t_text | t_null, "null", Handling::implemented},
    {"preset", t_text | t_null, "null", Handling::implemented},
    {"layers", t_int | t_null, "null", Handling::implemented},
    {"hidden", t_int | t_null, "null", Handling::implemented},
    {"heads", t_int | t_null, "null", Handling::implemented},
    {"sequence", t_int | t_null, "null", Handling::implemented},
    {"vocab", t_int | t_null, "null", Handling::implemented},
    {"dropout", t_real, "0.0", Handling::implemented},
    {"tied", t_bool | t_null, "null", Handling::implemented},
};

constexpr Key data_keys[] = {
    {"train", t_text | t_list | t_null, "null", Handling::implemented},
    {"validation", t_text | t_list | t_null, "null", Handling::implemented},
};

constexpr Key parallel_keys[] = {
    {"tensor", t_int, "1", Handling::refused, "tensor parallelism is not supported; all ranks are data-parallel"},
    {"pipeline", t_int, "1", Handling::refused, "pipeline parallelism is not supported; all ranks are data-parallel"},
    {"virtual_pipeline", t_int, "1", Handling::refused, "pipeline parallelism is not supported"},
    {"sequence", t_bool, "false", Handling::refused, "sequence parallelism is not supported"},
    {"schedule", t_text, R"("1f1b")", Handling::refused, "with one pipeline stage there is no other schedule"},
    {"reduce_every", t_int | t_null, "null", Handling::implemented},
    {"hierarchical_ranks", t_int, "1", Handling::implemented},
    {"cluster", t_text | t_null, "null", Handling::implemented},
};

constexpr Key memory_keys[] = {
    {"device_budget_bytes", t_int | t_null, "null", Handling::implemented},
    {"host_budget_bytes", t_int | t_null, "null", Handling::implemented},
    {"unit_bytes", t_int, "67108864", Handling::implemented},
    {"moments", t_text, R"("fp32")", Handling::implemented},
    {"master", t_text, R"("fp32")", Handling::implemented},
    {"nvme_budget_bytes", t_int | t_null, "null", Handling::implemented},
    {"nvme_path", t_text | t_null, "null", Handling::implemented},
    {"placement", t_text | t_list, R"("auto")", Handling::implemented},
    {"update", t_text, R"("auto")", Handling::implemented},
    {"update_when", t_text, R"("after_norm")", Handling::implemented},
    {"recompute", t_text | t_list, R"("auto")", Handling::implemented},
    {"microbatch_order", t_text, R"("auto")", Handling::implemented},
    {"link_bytes_per_second", t_int | t_null, "null", Handling::implemented},
};

constexpr Key run_keys[] = {
    {"steps", t_int, "1000", Handling::implemented},
    {"seed", t_int, "1", Handling::implemented},
    {"out", t_text | t_null, "null", Handling::implemented},
    {"name", t_text | t_null, "null", Handling::implemented},
    {"log_interval", t_int | t_null, "null", Handling::implemented},
    {"log_samples", t_bool, "false", Handling::implemented},
    {"eval_interval", t_int, "0", Handling::implemented},
    {"eval_batches", t_int, "8", Handling::implemented},
    {"checkpoint_interval", t_int, "0", Handling::implemented},
    {"keep_last", t_int, "2", Handling::implemented},
    {"keep_every", t_int, "0", Handling::implemented},
    {"resume", t_text | t_null, "null", Handling::implemented},
    {"load_module_only", t_bool, "false", Handling::implemented},
    {"save_weights", t_bool, "true", Handling::implemented},
    {"timeout_seconds", t_int, "120", Handling::implemented},
    {"threads_per_rank", t_int, "1", Handling::implemented},
    {"device", t_text, R"("cpu")", Handling::implemented},
    {"kernel_table", t_text | t_null, "null", Handling::implemented},
    {"trace", t_bool, "false", Handling::implemented},
    {"trace_steps", t_list | t_null, "null", Handling::implemented},
    {"stress_seed", t_int, "0", Handling::implemented},
};

// Sections in the order of config.resolved.json; those of models may have keys of several types.
std::vector<Section> own_table() {
  static const std::vector<std::pair<std::string, std::vector<Key>>> model_sections = [] {
    std::vector<std::pair<std::string, std::vector<Key>>> all{
        {"model", {std::begin(model_keys), std::end(model_keys)}}};
    for (const models::ModelSpec* spec : models::model_specs()) {
      for (const Section& section : spec->sections) {
        auto at = std::find_if(all.begin(), all.end(), [&](const auto& known) { return known.first == section.path; });
        if (at == all.end()) at = all.insert(at, {section.path, {}});
        for (const Key& key : section.keys) {
          const auto known = std::find_if(at->second.begin(), at->second.end(),
                                          [&](const Key& other) { return std::string_view(other.name) == key.name; });
          if (known == at->second.end()) {
            at->second.push_back(key);
          } else if (known->types != key.types || std::string_view(known->fallback) != key.fallback) {
            throw core::ProgramError(std::string("types of models describe the key '") + key.name + "' differently");
          }
        }
      }
    }
    return all;
  }();
  std::vector<Section> table{{"", "zrt", Parser::own, nullptr, own_root_keys},
                             {"fp8", "", Parser::own, nullptr, fp8_keys}};
  for (const auto& [path, keys] : model_sections) table.push_back({path.c_str(), "", Parser::own, nullptr, keys});
  table.insert(table.end(), {{"data", "", Parser::own, nullptr, data_keys},
                             {"parallel", "", Parser::own, nullptr, parallel_keys},
                             {"memory", "", Parser::own, nullptr, memory_keys},
                             {"run", "", Parser::own, nullptr, run_keys}});
  return table;
}

}  // namespace

std::span<const Section> own_sections() {
  static const std::vector<Section> table = own_table();
  return table;
}

}  // namespace zrt::runtime::configuration
