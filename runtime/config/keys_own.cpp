// The sections that DeepSpeed ignores.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/keys/text.h"
#include "core/mesh.h"
#include "models/spec.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key own_root_keys[] = {
    key("model", t_object, "null", "The network: a preset, or a type and its sizes."),
    key("data", t_object, "null", "The tokens to train and to evaluate on."),
    key("parallel", t_object, "null", "How the work is divided among ranks."),
    key("memory", t_object, "null",
        "Where states live, what is computed again, and the budgets that they must fit (docs/memory.md)."),
    key("run", t_object, "null", "How long a run is, what it writes, and what it runs on."),
    key("pseudo_to_real", t_object, "null",
        "Layers that share parameters until they are delinked (docs/pseudo_to_real.md)."),
    key("fp8", t_object, "null", "Products of 8-bit floats (docs/gpu.md)."),
    key("adapters", t_object, "null", "Low-rank matrices that are trained beside frozen weights (docs/adapters.md)."),
    key("parameter_groups", t_list | t_null, "null", Effect::results,
        "A weight decay, a factor of the rate or an optimizer for parameters by name, or that they are not trained; of "
        "the list the first entry that matches counts (docs/deepspeed.md)."),
};

constexpr Key adapter_keys[] = {
    key("type", t_text | t_null, "null", one_of("lora"), Effect::results,
        "The kind of adapters beside frozen weights; null: there are none but those of a folder of PEFT that the run "
        "begins with."),
    key("rank", t_int, "8", between(1, 4096), Effect::results, "Rows of lora_A, and columns of lora_B."),
    key("alpha", t_real, "16.0", between(1e-6, 1e6), Effect::results,
        "What an adapter makes is multiplied by alpha / rank."),
    key("rslora", t_bool, "false", Effect::results, "Multiply by alpha / sqrt(rank) instead."),
    key("dropout", t_real, "0.0", between(0, 0.99), Effect::results,
        "The share of what adapters read that is left out, in training."),
    key("targets", t_list | t_null, "null", Effect::results,
        "Linear layers that get one, by the last parts of their names, such as q_proj or attn.c_attn, or by patterns "
        "with * for any characters. null: all between embedding and head, but those of routed experts."),
};

constexpr Key fp8_keys[] = {
    key("enabled", t_bool, "false", Effect::results,
        "Beside bf16, linear layers of blocks round the operands of their products to e4m3."),
};

// Keys of every model; those that only some types have stand in their specs.
constexpr Key model_keys[] = {
    key("type", t_text | t_null, "null", Effect::results, "The kind of network; null: that of the preset, or gpt2."),
    key("preset", t_text | t_null, "null", Effect::results,
        "A network by name; keys that are given beside it replace its sizes. null: the sizes are given."),
    key("from", t_text | t_null, "null", Effect::results,
        "Folder of Hugging Face, of a run or a checkpoint whose model is meant: its type, sizes and positions, without "
        "its weights, which run.resume loads; keys that are given beside it replace its. null: the sizes are given, or "
        "run.resume's folder has them."),
    key("layers", t_int | t_null, "null", between(1, 2048), Effect::results,
        "Transformer blocks; null: those of the preset."),
    key("hidden", t_int | t_null, "null", between(1, 1 << 20), Effect::results,
        "Elements of a token's vector between blocks; null: those of the preset."),
    key("heads", t_int | t_null, "null", between(1, 1 << 20), Effect::results,
        "Heads of attention in a block; null: those of the preset."),
    key("sequence", t_int | t_null, "null", between(2, 1 << 24), Effect::results,
        "Tokens of a sample; null: those of the preset."),
    key("vocab", t_int | t_null, "null", between(1, INT32_MAX), Effect::results,
        "Token ids that the network knows, at least the data's; null: those of the preset."),
    key("dropout", t_real, "0.0", half_open(0, 1), Effect::results,
        "The share of activations that training sets to zero at random; types made of Llama's layers have none."),
    key("tied", t_bool | t_null, "null", Effect::results,
        "Whether the output layer shares the weights of the token embedding; null: as the type or the preset has it."),
};

constexpr Key data_keys[] = {
    key("train", t_text | t_list | t_null, "null", Effect::results,
        "Prefix of a .bin/.idx pair, an llm.c file or pattern, or a list of [weight, prefix, language]; zrt train "
        "needs it."),
    key("validation", t_text | t_list | t_null, "null", Effect::reports,
        "Held-out data: a prefix, or a list of [prefix, language], each of which is evaluated by itself. null: none."),
    key("split", t_text | t_real | t_null, "null", Effect::results,
        "Cuts each dataset of data.train by its documents into parts for training, validation and test (read by no "
        "run), instead of data.validation: weights such as \"969,30,1\", or the fraction of the documents that is held "
        "out (docs/data.md). null: all of it is for training."),
    key("documents", t_text, R"("joined")", one_of("joined alone separate"), Effect::results,
        "joined: documents are laid end to end and cut into samples. alone: each document is a sample, which begins "
        "with it; longer ones are cut, and behind shorter ones nothing counts. separate: samples are packed with "
        "several "
        "documents, which attend to themselves alone and whose positions begin anew (docs/data.md)."),
};

constexpr Key parallel_keys[] = {
    {.name = "tensor",
     .types = t_int,
     .fallback = "1",
     .alias = "tensor_model_parallel_size",
     .legal = between(1, 1 << 10),
     .effect = Effect::results,
     .help = "Ranks that share the work of each block (Megatron-LM's tensor parallelism): heads, columns and rows of "
             "matrices, and the vocabulary."},
    {.name = "sequence",
     .types = t_bool,
     .fallback = "false",
     .alias = "sequence_parallel",
     .effect = Effect::results,
     .help = "Whether tensor-parallel ranks also share the tokens of what is computed token by token between their "
             "exchanges: norms, dropout, and the residual stream (Megatron-LM's sequence parallelism)."},
    {.name = "expert",
     .types = t_int,
     .fallback = "1",
     .alias = "expert_model_parallel_size",
     .legal = between(1, core::Mesh::max_ranks),
     .effect = Effect::results,
     .help = "Data-parallel ranks that have a part of each layer's experts each (expert parallelism): tokens go to the "
             "ranks of their experts and come back. It divides the data-parallel ranks and model.experts.number."},
    {.name = "pipeline",
     .types = t_int,
     .fallback = "1",
     .alias = "pipeline_model_parallel_size",
     .legal = between(1, core::Mesh::max_ranks),
     .effect = Effect::results,
     .help = "Stages that the model is cut into, each on ranks of its own; 1: no pipeline."},
    {.name = "virtual_pipeline",
     .types = t_int,
     .fallback = "1",
     .alias = "virtual_pipeline_model_parallel_size",
     .legal = between(1, 1024),
     .effect = Effect::cost,
     .help = "Chunks of the model that a stage has, with schedule interleaved."},
    {"num_layers_per_virtual_pipeline_stage", t_int | t_null, "null", Handling::refused,
     "parallel.virtual_pipeline says how many chunks a stage has: the layers by this number and by the stages"},
    key("schedule", t_text, R"("1f1b")", one_of("1f1b gpipe interleaved zb-h1"), Effect::cost,
        "In which order a stage takes forwards and backwards; with virtual_pipeline above 1 interleaved is inferred."),
    key("microbatch_group", t_int | t_null, "null", between(1, 1 << 16), Effect::cost,
        "Of schedule interleaved: microbatches in a row that go through a chunk before the next one; null: as many as "
        "there are stages."),
    key("partition", t_text | t_list, R"("time")", one_of("time parameters uniform"), Effect::cost,
        "Where the model is cut into stages: so that their times, parameters or numbers of blocks are even; or a list "
        "of the blocks of each chunk, the embedding and the head counted as one each."),
    key("gathered_for", t_text, R"("auto")", one_of("auto use run step"), Effect::cost,
        "How long a stage keeps weights that ZeRO stage 3 gathers: for a use, for a run of microbatches through a "
        "chunk, "
        "or all step; auto: as long as the budget of the device allows, without one for a use."),
    key("reduce_every", t_int | t_null, "null", between(1, most), Effect::results,
        "Microbatches that a rank sums before gradients are reduced; null: at stage 0 and 1 all of a step, at 2 "
        "and 3 one."),
    key("hierarchical_ranks", t_int, "1", between(1, core::Mesh::max_ranks), Effect::results,
        "Data-parallel ranks that follow one another, such as those of a host, inside which collectives run first; 1: "
        "no "
        "such groups."),
    key("sums", t_text, R"("ordered")", one_of("ordered fast"), Effect::results,
        "Who sums in groups that NCCL connects: ordered: each rank adds in the order of ranks, in fp32; fast: NCCL, in "
        "its own order and in the type that is sent (docs/several_gpus.md)."),
    key("cluster", t_text | t_null, "null", Effect::cost,
        "File or name of the cluster for which the lead of gathers is chosen; null: none."),
};

constexpr Key memory_keys[] = {
    key("device_budget_bytes", t_int | t_null, "null", at_least(1), Effect::cost,
        "Bytes that a rank may use on its device; null: no limit."),
    key("host_budget_bytes", t_int | t_null, "null", at_least(1), Effect::cost,
        "Bytes that a rank may use of the host's memory; null: no limit."),
    key("unit_bytes", t_int, "67108864", between(64, most), Effect::cost,
        "The largest piece of weights that is gathered, reduced or moved at once."),
    key("moments", t_text, R"("fp32")", one_of("fp32 bf16 int8"), Effect::results,
        "The form of moments and momenta; in the smaller ones values are rounded at random."),
    key("master", t_text, R"("fp32")", one_of("fp32 none"), Effect::results,
        "Whether fp32 copies of bf16 weights are kept; none: updates round the weights at random."),
    key("frozen", t_text, R"("compute")", one_of("compute int8 nf4"), Effect::results,
        "The form in which matrices of layers are kept that are not trained: as the run computes with them, or in "
        "blocks "
        "of 64 numbers of eight or four bits with a scale."),
    key("nvme_budget_bytes", t_int | t_null, "null", at_least(1), Effect::cost,
        "Bytes that a rank may use in its file on NVMe; null: no limit."),
    key("nvme_path", t_text | t_null, "null", Effect::cost,
        "Folder of the files that hold states on NVMe; null: that of the offload keys."),
    key("placement", t_text | t_list, R"("auto")", one_of("auto device host nvme"), Effect::cost,
        "Where states live: one place for all, a list of rules, or auto: the device, save what offload keys and "
        "budgets move."),
    key("device_layers", t_int | t_null, "null", between(1, 2048), Effect::cost,
        "The number of layers whose weights are on the device at a time: those that are computed next. The others' "
        "wait "
        "on the host, or where memory.placement has them. null: each layer's weights are where they are resident."),
    key("moved_layers", t_int, "1", between(1, 2048), Effect::cost,
        "The number of memory.device_layers that leave together, once all of them are computed; as many come."),
    key("update", t_text, R"("auto")", one_of("auto device host"), Effect::cost,
        "Where weights are updated whose states live on the host; auto: there."),
    key("update_when", t_text, R"("after_norm")", one_of("after_norm as_ready next_forward"), Effect::results,
        "When weights are updated: after the norm of the whole gradient is known, each as soon as its gradient is, or "
        "each in the next step, while blocks before it run their forward."),
    key("recompute", t_text | t_list, R"("auto")", one_of("auto never none selective full"), Effect::cost,
        "Which activations the backward computes again: of all layers, of a list of layers, or auto: what the "
        "budgets need, and where a budget has room left, not even outputs of norms and activation functions (never)."),
    key("microbatch_order", t_text, R"("auto")", one_of("auto microbatch_major layer_major"), Effect::cost,
        "Whether a step takes microbatch by microbatch or layer by layer; auto: layer by layer where gradients "
        "are sharded."),
    key("link_bytes_per_second", t_int | t_null, "null", at_least(1), Effect::cost,
        "Speed of the link to the host that the CPU imitates as a device; null: it is not slowed down."),
};

// Sections in the order of config.resolved.json; those of models may have keys of several types.
std::vector<Section> own_table() {
  static const std::vector<std::pair<std::string, std::vector<Key>>> model_sections = [] {
    std::vector<std::pair<std::string, std::vector<Key>>> all{
        {"model", {std::begin(model_keys), std::end(model_keys)}}};
    static const std::string presets = join(models::preset_names(), " "), types = [] {
      std::vector<std::string> names;
      for (const models::ModelSpec* spec : models::model_specs()) names.emplace_back(spec->type);
      return join(names, " ");
    }();
    for (Key& key : all[0].second) {
      if (key.name == std::string_view("type")) key.legal.choices = types.c_str();
      if (key.name == std::string_view("preset")) key.legal.choices = presets.c_str();
    }
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
                             {"adapters", "", Parser::own, nullptr, adapter_keys},
                             {"fp8", "", Parser::own, nullptr, fp8_keys}};
  for (const auto& [path, keys] : model_sections) table.push_back({path.c_str(), "", Parser::own, nullptr, keys});
  table.insert(table.end(), {{"data", "", Parser::own, nullptr, data_keys},
                             {"parallel", "", Parser::own, nullptr, parallel_keys},
                             {"memory", "", Parser::own, nullptr, memory_keys},
                             {"run", "", Parser::own, nullptr, run_keys()}});
  return table;
}

}  // namespace

std::span<const Section> own_sections() {
  static const std::vector<Section> table = own_table();
  return table;
}

}  // namespace zrt::runtime::configuration
