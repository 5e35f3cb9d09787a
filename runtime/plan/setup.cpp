#include "runtime/plan/setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/parallel.h"
#include "models/kernels/candidates.h"
#include "runtime/cost/cost.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/gpu_rooms.h"
#include "runtime/plan/gpus.h"
#include "runtime/plan/partition.h"
#include "runtime/plan/suggest.h"
#include "runtime/program/cut.h"
#include "runtime/program/placement_rules.h"

namespace zrt::runtime {

namespace {

void check(const char* key, int64_t value, int64_t most, const std::string& advice) {
  if (value <= most) return;
  throw core::ConfigError(fmt::format("{} is {}; legal are 1 to {}. {}", key, value, most, advice));
}

}  // namespace

void check_sizes(const Config& config) {
  const BatchConfig& batch = config.batch;
  check("gradient_accumulation_steps", batch.accumulation, 1 << 16,
        fmt::format("It is train_batch_size ({}) divided by train_micro_batch_size_per_gpu ({}) and {} data-parallel "
                    "rank{}: lower the first, or raise one of the others.",
                    batch.train, batch.micro, config.mesh.data(), config.mesh.data() == 1 ? "" : "s"));
  check("train_micro_batch_size_per_gpu", batch.micro, (int64_t{1} << 31) / config.model.sequence,
        fmt::format("A microbatch has at most 2^31 tokens, and model.sequence is {}. Lower it or train_batch_size "
                    "({}), or raise gradient_accumulation_steps ({}).",
                    config.model.sequence, batch.train, batch.accumulation));
}

void check_run(const Config& config) {
  check_sizes(config);
  check("run.steps", config.run.steps, (int64_t{1} << 31) / config.batch.train,
        fmt::format("A run reads at most 2^31 samples, and train_batch_size is {}. Lower one of the two.",
                    config.batch.train));
}

void use_kernel_table(const Config& config) {
  const std::string& path = config.run.kernel_table;
  if (path.empty()) return;
  constexpr uint64_t most = 64u << 20;
  std::string text;
  try {
    text = core::read_text(path, most);
  } catch (const core::Error& error) {
    throw core::ConfigError(fmt::format("run.kernel_table: {}", error.what()));
  }
  models::KernelFile file = models::parse_kernel_file(text, path);
  models::check_kernel_file(file, path, models::cuda::chip_name(), models::cuda::lt_libraries());
  models::use_kernel_file(std::move(file));
}

namespace {

void check_groups(const Config& config, const Layout& layout) {
  const std::vector<optimizer::ParamGroup>& groups = config.optimizer.groups;
  std::vector<uint8_t> used(groups.size());
  for (const auto& ref : layout.model->canonical_params()) {
    const auto* group = optimizer::find_group(groups, layout.model->blocks[ref.block]->params()[ref.index]);
    if (group) used[static_cast<size_t>(group - groups.data())] = 1;
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (used[g]) continue;
    std::vector<std::string> names;
    for (const models::Param& param : layout.model->blocks[1]->params()) names.push_back(param.name);
    throw core::ConfigError(
        fmt::format("parameter_groups[{}] takes no parameter: none that an earlier group leaves matches {}. A {} has "
                    "parameters such as {}.",
                    g, fmt::join(groups[g].match, ", "), layout.model->type, fmt::join(names, ", ")));
  }
}

// Ranks with different experts must not take them for copies of the same.
void check_experts(const Config& config, const models::Model& model) {
  const int expert = config.mesh.expert();
  if (expert == 1) return;
  const auto is_spread = [&](const models::Param& param) { return param.spread && param.spread->places == expert; };
  const bool spreads = std::any_of(model.blocks.begin(), model.blocks.end(), [&](const auto& block) {
    return std::any_of(block->params().begin(), block->params().end(), is_spread);
  });
  if (!spreads) {
    throw core::ConfigError(fmt::format(
        "parallel.expert is {}, but the model, of type {}, has no experts to spread over ranks. Legal is 1.", expert,
        model.type));
  }
}

// Units of experts stand for others on other ranks, which are updated by the same ops.
void check_spread(const Layout& layout, bool grouped) {
  for (const optimizer::Unit& unit : layout.units.units) {
    if (!unit.spread() || !unit.trained) continue;
    if (unit.sliced() && layout.optimizer->exchanges(unit)) {
      throw core::ConfigError(fmt::format(
          "parallel.expert and parallel.tensor are both above 1, and '{}' is updated by an optimizer that needs whole "
          "matrices ({}): the ranks that have the parts of an expert's matrix do not follow one another. Set one of "
          "the "
          "two to 1, or take Adam, AdamW, SGD or Lion.",
          unit.name, layout.optimizer->facts(unit.group).optimizer));
    }
    for (const optimizer::UnitParam& place : unit.params) {
      for (int at = 1; grouped && at < place.param->places(); ++at) {
        const models::Param other = place.param->at(at);
        if (layout.optimizer->group_of(other, true) == unit.group) continue;
        throw core::ConfigError(fmt::format(
            "parameter_groups put '{}' and '{}' into different groups, which with parallel.expert = {} ranks "
            "have in one place. Use patterns that match both or none.",
            place.param->name, other.name, place.param->places()));
      }
    }
  }
}

// A model that knows nothing of the degree would do all of the work on every rank, and have that added up.
void check_degree(const Config& config, const models::Model& model) {
  check_experts(config, model);
  const int tensor = config.mesh.tensor();
  if (tensor == 1) return;
  const auto is_cut = [&](const models::Param& param) { return param.slice && param.slice->ranks == tensor; };
  if (std::none_of(model.blocks.begin(), model.blocks.end(), [&](const auto& block) {
        return std::any_of(block->params().begin(), block->params().end(), is_cut);
      })) {
    throw core::ConfigError(
        fmt::format("parallel.tensor is {}, but a model of type {} is not made for ranks that share its blocks: none "
                    "of its tensors is cut. Legal is 1.",
                    tensor, model.type));
  }
  if (model.degrees != config.model.degrees) {
    throw core::ConfigError(
        fmt::format("parallel.tensor is {} and parallel.sequence {}, but the model says that {} rank{} share its "
                    "blocks and {} rows (Model::degrees).",
                    tensor, config.model.degrees.sequence_parallel, model.degrees.tensor,
                    model.degrees.tensor == 1 ? "" : "s", model.degrees.sequence_parallel ? "share" : "do not share"));
  }
}

// Returns the layout of a stage whose part of the model this is, or of the whole.
Layout layout_of(const Config& config, const models::Model& model, const Stage& stage) {
  Layout layout;
  layout.model = std::make_shared<const models::Model>(model);
  layout.stage = stage;
  layout.zero = optimizer::zero_strategy(config.zero.stage);
  layout.optimizer = config.optimizer.algorithm;
  layout.device = config.run.device;
  layout.mesh = config.mesh;
  layout.ranks_in_reach = config.ranks_in_reach;
  layout.compute = config.precision.compute;
  layout.master = config.memory.master;
  layout.fp8 = config.precision.fp8;
  layout.documents = config.data.documents == data::DocumentUse::separate;
  // Gradients of layers that share parameters are added up in fp32, whatever type those of one layer have.
  if (model.shares_layers && config.batch.accumulation > 1 && config.precision.accumulated_grad != core::DType::f32) {
    throw core::ConfigError(
        "data_types.grad_accum_dtype = \"bf16\" cannot be honoured with pseudo_to_real: gradients of layers that share "
        "parameters are added up in fp32. Leave the key out.");
  }
  layout.local_grad = model.shares_layers ? core::DType::f32 : config.precision.local_grad;
  layout.grad = model.shares_layers ? core::DType::f32 : config.precision.accumulated_grad;
  const auto unit_elements =
      std::max<int64_t>(1, config.memory.unit_bytes / static_cast<int64_t>(core::dtype_size(layout.compute)));
  layout.groups = {config.parallel.hierarchical_ranks > 1, config.zero.hpz_partition_size > 1,
                   config.zero.mics_shard_size > 0};
  optimizer::Persistence persistence{config.zero.param_persistence_threshold, config.zero.model_persistence_threshold};
  if (layout.zero.weights == optimizer::Extent::full) persistence = {};
  const optimizer::Cut cut{layout.mesh, layout.groups.shard_axes(), layout.zero, layout.optimizer->alignment(),
                           config.memory.frozen};
  layout.units = optimizer::make_units(model, cut, unit_elements, persistence, layout.optimizer.get());
  layout.microbatches = static_cast<uint32_t>(config.batch.accumulation);
  layout.reduce_every = static_cast<uint32_t>(config.parallel.reduce_every);
  layout.micro_batch = config.batch.micro;
  layout.sequence = model.sequence;
  layout.reduce_bucket = config.zero.reduce_bucket_size;
  layout.gather_bucket = config.zero.allgather_bucket_size;
  layout.overlap = config.zero.overlap_comm;
  layout.open_overlap = config.zero.open_overlap;
  layout.prefetch = config.zero.prefetch_bucket_size;
  layout.max_live = config.zero.max_live_parameters;
  // Nothing lies between the last forward and the first backward, so the distance is what stays gathered meanwhile.
  int64_t last_block = 0;
  for (uint32_t u : layout.units.blocks.back()) last_block += layout.units.units[u].parameters();
  layout.reuse_at_turn = config.zero.max_reuse_distance >= last_block;
  layout.order = config.memory.order;
  layout.update_when = config.memory.update_when;
  layout.link_bytes_per_second = static_cast<double>(config.memory.link_bytes_per_second.value_or(0));
  layout.placement = make_placement(config.memory, layout);
  layout.gathered_for = config.parallel.gathered_for.value_or(GatheredFor::use);
  layout.open_gathered_for = !config.parallel.gathered_for;
  layout.open_placement = config.memory.open_placement;
  layout.open_recompute = config.memory.open_recompute;
  return layout;
}

// A target without a layer would train nothing, or less than was meant.
void check_adapters(const models::Model& model) {
  constexpr std::string_view down = ".lora_A.weight", weight = ".weight";
  const models::Adapters& adapters = model.adapters;
  if (adapters.rank == 0) return;
  std::vector<std::string> adapted;
  std::set<std::string> legal;  // behind the layer's number
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    const std::string& name = param.name;
    if (name.ends_with(down)) adapted.push_back(name.substr(0, name.size() - down.size()));
    const int64_t layer = models::layer_of(name);
    const bool routed = name.find(".experts.") != std::string::npos || name.ends_with("mlp.gate.weight");
    if (param.adapter || routed || layer < 0 || param.shape.size() != 2 || !name.ends_with(weight)) continue;
    const size_t at = name.find(fmt::format(".{}.", layer)) + fmt::format(".{}.", layer).size();
    legal.insert(name.substr(at, name.size() - weight.size() - at));
  }
  for (const std::string& target : adapters.targets) {
    const auto taken = [&](const std::string& layer) { return models::Adapters::takes(target, layer); };
    if (std::any_of(adapted.begin(), adapted.end(), taken)) continue;
    throw core::ConfigError(fmt::format(
        "adapters.targets has '{}', which takes no linear layer that can have an adapter. Legal are the last "
        "parts of these names, and patterns of whole ones: {}. Left out, targets are all of them.",
        target, fmt::join(legal, ", ")));
  }
  if (adapted.empty()) throw core::ConfigError("adapters.type is set, but the model has no layer that could have one.");
}

// A name that the model does not have would freeze nothing.
void check_frozen(const models::Model& model) {
  std::set<std::string_view> names;
  std::list<std::string> spread;
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    names.insert(param.name);
    for (int at = 1; at < param.places() && !model.frozen.empty(); ++at) {
      names.insert(spread.emplace_back(param.name_at(at)));
      if (model.frozen.contains(spread.back()) == model.frozen.contains(param.name)) continue;
      throw core::ConfigError(fmt::format(
          "the model is to freeze one of '{}' and '{}' alone, which with parallel.expert = {} ranks have in "
          "one place: freeze both or none",
          param.name, spread.back(), param.places()));
    }
  }
  if (model.frozen.size() == names.size()) {
    throw core::ConfigError(
        "no parameter is trained: parameter_groups says \"trainable\": false of all of them. Let some train, by an "
        "entry in front of it with \"trainable\": true, or by a pattern that takes fewer.");
  }
  for (const std::string& name : model.frozen) {
    if (names.contains(name)) continue;
    throw core::ConfigError(
        fmt::format("the model is to freeze '{}', which it does not have; its parameters are, for "
                    "example, '{}' and '{}'",
                    name, *names.begin(), *names.rbegin()));
  }
}

}  // namespace

std::vector<Layout> make_layouts(const Config& config, const models::Model& model) {
  check_adapters(model);
  check_frozen(model);
  if (config.memory.frozen && model.frozen.empty()) {
    throw core::ConfigError(
        "memory.frozen says how frozen weights are kept, but all are trained. Add adapters, or \"trainable\": false in "
        "parameter_groups, or leave the key out.");
  }
  check_sizes(config);
  check_degree(config, model);
  std::vector<Layout> layouts;
  const Layout whole = layout_of(config, model, {});
  check_groups(config, whole);
  check_spread(whole, !config.optimizer.groups.empty());
  const int stages = config.mesh.pipeline();
  if (stages == 1) return {whole};
  const auto cut = blocks_of_stages(chunk_ends(config, whole), static_cast<size_t>(stages));
  const int sharing = stages_that_share(model, cut);
  for (const std::vector<size_t>& blocks : cut) {
    const Stage stage{config.parallel.schedule, static_cast<int>(layouts.size()), sharing};
    layouts.push_back(layout_of(config, model.part(blocks), stage));
  }
  return layouts;
}

std::string tensor_across_hosts(const Config& config, int ranks_per_host, Distribution distribution) {
  const int tensor = config.mesh.tensor();
  const RankGroups group = config.mesh.groups(Axis::tensor);
  if (host_spread(group, config.mesh.world(), ranks_per_host, distribution).hosts == 1) return "";
  const std::string remedy =
      distribution == Distribution::cyclic
          ? "Let ranks fill one host after another (mpirun --map-by slot, srun --distribution=block), and say so in "
            "the "
            "cluster's file"
          : fmt::format("Use a degree that divides {}, and stages of a pipeline (parallel.pipeline) between hosts",
                        ranks_per_host);
  return fmt::format(
      "with parallel.tensor = {} and {} rank{} on each host{} a group of tensor-parallel ranks spans hosts: they "
      "exchange the activations of every layer, which is fast inside a host alone. {}.",
      tensor, ranks_per_host, ranks_per_host == 1 ? "" : "s", distribution == Distribution::cyclic ? ", in turns," : "",
      remedy);
}

std::vector<std::string> training_phases(const Config& config, const std::string& first) {
  std::vector<std::string> phases{first, "step", "export"};
  if (config.run.checkpoint_interval > 0) phases.push_back("save");
  if (!config.data.validation.empty()) phases.push_back("eval");
  return phases;
}

namespace {

// Returns what a rank may use on this machine, whatever the configuration says: its share of the memory, which the host
// tier draws on too.
Limits machine_limits(const Config& config, const Compiled& compiled, uint64_t ranks, GpuRooms& gpus) {
  const auto machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t share = machine / ranks, host = compiled.plan.host().peak_bytes;
  if (config.run.device == core::DeviceKind::cuda) {
    Limits limits = gpus.limits(ranks);
    limits.of(core::Tier::host) = Limit{share, fmt::format("what this machine's {} leave each of {} rank{}",
                                                           core::format_bytes(machine), ranks, ranks == 1 ? "" : "s")};
    return limits;
  }
  Limits limits;
  limits.more_ranks = false;
  limits.of(core::Tier::device) =
      Limit{share - std::min(share, host),
            fmt::format("what this machine's {} leave each of {} rank{}{}", core::format_bytes(machine), ranks,
                        ranks == 1 ? "" : "s", host > 0 ? fmt::format(", less {} in the host tier,", host) : "")};
  return limits;
}

}  // namespace

std::vector<Compiled> compile_within_budget(const Config& wanted, const models::Model& model,
                                            std::vector<std::string> phases, const RunPlace& place) {
  const Config config = in_reach(wanted, place.ranks_in_reach);
  check_run(config);
  const core::DeviceKind device = config.run.device;
  core::require_device(device);
  use_kernel_table(config);
  core::set_threads(config.run.threads_per_rank);
  // A host that holds the whole run would hold all ranks of the changed configuration; another keeps its number.
  const auto ranks_of = [&](const Config& of) {
    const int world = config.mesh.world(), here = place.host_ranks > 0 ? place.host_ranks : world;
    return static_cast<uint64_t>(here == world ? of.mesh.world() : here);
  };
  GpuRooms gpus(config, ranks_of(config), place.room);
  const auto holds = [&](const Config& of, const Compiled& stage) {
    const TierBytes peaks = peak_bytes(stage.plan);
    return memory_limits(of, nullptr).hold(peaks) && machine_limits(of, stage, ranks_of(of), gpus).hold(peaks);
  };
  FitRules rules;
  rules.request = [&](const Config& of) {
    Limits budgets = memory_limits(of, nullptr);
    if (!budgets.of(core::Tier::device) && device == core::DeviceKind::cuda) {
      budgets.of(core::Tier::device) = gpus.limits(ranks_of(of)).of(core::Tier::device);
    }
    FitRequest request{phases, budgets, budgets, {}};
    request.holds_copies = [&holds, &of](const Compiled& compiled) { return holds(of, compiled); };
    return request;
  };
  rules.holds = [&](const Config& of, const std::vector<Compiled>& stages) {
    return std::all_of(stages.begin(), stages.end(), [&](const Compiled& stage) { return holds(of, stage); });
  };
  Fitted fitted = fit(config, make_layouts(config, model), rules.request(config));
  for (const Compiled& stage : fitted.stages) {
    if (stage.layout.placement.uses(core::Tier::nvme) && !std::filesystem::is_directory(config.memory.nvme_path)) {
      throw core::ConfigError(
          fmt::format("memory.nvme_path is '{}', which is no folder; legal is a folder that exists, "
                      "on the drive that is to hold what memory does not. Make it, or name another.",
                      config.memory.nvme_path));
    }
    for (const Limits& limits :
         {memory_limits(config, nullptr), machine_limits(config, stage, ranks_of(config), gpus)}) {
      if (limits.hold(peak_bytes(stage.plan))) continue;
      // Text is generated on one rank whatever the configuration says: nothing in it would help.
      const bool fixed = stage.set.has("decode");
      throw core::MemoryError(
          fmt::format("{}{}\n{}\nThe largest buffers:\n{}",
                      stage.layout.stage.pipelined() ? fmt::format("stage {}: ", stage.layout.stage.index) : "",
                      shortage_text(stage.plan, limits),
                      fixed ? "Use a smaller model, or more memory."
                            : suggestions_text(suggest_fits(config, model, fitted.phases, limits, nullptr, rules)),
                      core::format_ledger(stage.plan.ledger, 12)));
    }
  }
  return std::move(fitted.stages);
}

}  // namespace zrt::runtime
