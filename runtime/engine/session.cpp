#include "runtime/engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "core/error.h"
#include "core/gpu.h"
#include "core/hash.h"
#include "core/near_memory.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/gpus.h"

namespace zrt::runtime {

namespace {

comm::Partition partition(const Group& group, int world) {
  comm::Partition parts;
  std::map<int, size_t> found;
  for (int rank = 0; rank < world; ++rank) {
    const auto [part, inserted] = found.try_emplace(group.ranks.begin(rank), parts.size());
    if (inserted) parts.emplace_back();
    parts[part->second].push_back(rank);
  }
  return parts;
}

// True where NCCL connects ranks that sum.
bool nccl_sums(const std::vector<Compiled>& stages, const comm::Transport& transport) {
  std::set<GroupId> sum;
  for (const Compiled& stage : stages) {
    for (const Program& program : stage.set.programs) {
      for (const Op& op : program.ops) {
        const OpSpec& row = spec(op.kind);
        if (row.communicates() && row.volume(stage.set, op, stage.layout).sums) sum.insert(op.group);
      }
    }
  }
  return std::any_of(sum.begin(), sum.end(), [&](GroupId group) {
    const comm::Partition parts = partition(stages.front().set.groups[group], transport.world());
    return std::any_of(parts.begin(), parts.end(), [&](const auto& ranks) { return transport.takes_nccl(ranks); });
  });
}

bool used(const ProgramSet& set, GroupId group) {
  return std::any_of(set.lanes.begin(), set.lanes.end(), [&](const Lane& lane) {
    return lane.kind == LaneKind::comm && lane.group == set.groups[group].name;
  });
}

std::vector<Compiled> one_stage(Compiled only) {
  std::vector<Compiled> stages;
  stages.push_back(std::move(only));
  return stages;
}

}  // namespace

Session::Session(std::vector<Compiled> stages, SessionOptions options, SessionHooks hooks, comm::Transport& transport)
    : stages_(std::move(stages)), transport_(transport), timeout_(options.timeout), hooks_(std::move(hooks)) {
  make_ranks(options);
}

Session::Session(std::vector<Compiled> stages, SessionOptions options, SessionHooks hooks)
    : stages_(std::move(stages)),
      own_transport_(comm::make_thread_transport(stages_.front().layout.mesh.world())),
      transport_(*own_transport_),
      timeout_(options.timeout),
      hooks_(std::move(hooks)) {
  make_ranks(options);
}

Session::Session(Compiled only, SessionOptions options, SessionHooks hooks, comm::Transport& transport)
    : Session(one_stage(std::move(only)), std::move(options), std::move(hooks), transport) {}

Session::Session(Compiled only, SessionOptions options, SessionHooks hooks)
    : Session(one_stage(std::move(only)), std::move(options), std::move(hooks)) {}

void Session::make_ranks(const SessionOptions& options) {
  const Layout& first = stages_.front().layout;
  if (transport_.world() != first.mesh.world()) {
    throw core::ConfigError(fmt::format("the configuration is for {} ranks but the run has {}; use --ranks {}",
                                        first.mesh.world(), transport_.world(), transport_.world()));
  }
  if (first.early_updates() && (options.clip > 0 || options.loss_scale.dynamic)) {
    throw core::ConfigError(fmt::format(
        "updates that do not wait for the norm (memory.update_when = \"as_ready\") cannot be combined with {}",
        options.clip > 0 ? "clipping; set gradient_clipping to 0" : "a dynamic loss scale; set fp16.loss_scale"));
  }
  fast_sums_ = options.fast_sums && first.device == core::DeviceKind::cuda && nccl_sums(stages_, transport_);
  transport_.let_nccl_sum(fast_sums_);
  const ProgramSet& set = stages_.front().set;  // all stages have the same groups and lanes
  std::vector<std::vector<std::unique_ptr<comm::Communicator>>> groups(set.groups.size());
  for (GroupId g = 0; g < groups.size(); ++g) {
    const Group& group = set.groups[g];
    if (g == 0 || used(set, g)) {  // the first one is there in any case
      groups[g] = transport_.make_groups(group.name, partition(group, first.mesh.world()), options.timeout);
    }
  }
  ranks_.resize(groups[0].size());
  gpus_ = choose_gpus(first.device, host_ranks(transport_), options.share_gpu);
  std::function<void(const std::string&)> warn;
  if (options.warn) {
    warn = [given = options.warn, mutex = std::make_shared<std::mutex>()](const std::string& text) {
      const std::lock_guard lock(*mutex);
      given(text);
    };
  }
  if (options.fast_sums && !fast_sums_ && first.device == core::DeviceKind::cuda && warn) {
    warn(
        "parallel.sums = \"fast\" has no effect: NCCL connects no ranks of this run that sum; they add in their order");
  }
  if (const std::string apart = core::connect_gpus(gpus_); !apart.empty() && warn) {
    warn(fmt::format(
        "GPUs {} cannot read each other's memory: what ranks give each other goes through the host, which is "
        "slower",
        apart));
  }
  // Each rank fills its own arenas, so that its pages are first touched by the thread that will use them.
  on_all_ranks([&](size_t local) {
    // Ranks that share a host have GPUs beside several of its memories; a single one may use all of them.
    if (!gpus_.empty() && transport_.host_count() > 1) core::prefer_memory_of(core::gpu_info(gpus_[local]).numa_node);
    Member& member = ranks_[local];
    const int number = first_local() + static_cast<int>(local);
    const Compiled& mine = stage(static_cast<int>(local));
    const Layout& layout = mine.layout;
    const ProgramSet& programs = mine.set;
    core::Arenas arenas{};
    for (size_t t = 0; t < core::tier_count; ++t) {
      if (programs.arena_bytes[t] == 0 || static_cast<core::Tier>(t) == core::Tier::nvme) continue;
      member.arenas[t] =
          transport_.make_arena(number, static_cast<core::Tier>(t), programs.arena_bytes[t], layout.device);
      arenas[t] = member.arenas[t].get();
    }
    if (const uint64_t bytes = programs.bytes(core::Tier::nvme); bytes > 0) {
      offload::BlockFileOptions file;
      file.folder = options.nvme_path;
      file.rank = number;
      file.bytes = bytes;
      file.bytes_per_second = options.nvme_bytes_per_second;
      file.warn = warn;
      member.file = std::make_unique<offload::BlockFile>(file);
      const core::Arena& host = *member.arenas[static_cast<size_t>(core::Tier::host)];
      member.file->register_memory(host.data(), host.bytes());
    }
    member.up = member.down = offload::PacedLink(layout.link_bytes_per_second);
    Rank rank;
    rank.file = member.file.get();
    rank.up = &member.up;
    rank.down = &member.down;
    rank.number = number;
    rank.data = layout.mesh.place(data_axes, number);
    rank.tensor = layout.mesh.place(Axis::tensor, number);
    rank.expert = layout.mesh.place(Axis::expert, number);
    rank.layout = &layout;
    rank.blocks = mine.blocks;
    for (auto& group : groups) {
      const size_t g = member.groups.size();
      member.groups.push_back(group.empty() ? nullptr : std::move(group[local]));
      if (const BufferId staging = programs.groups[g].staging; staging != no_buffer && member.groups.back()) {
        member.groups.back()->lend(arenas[static_cast<size_t>(core::Tier::device)]->data() +
                                   programs.buffers[staging].offset);
      }
      rank.groups.push_back(member.groups.back().get());
    }
    rank.loss_scale = options.loss_scale;
    rank.clip = options.clip;
    rank.seed = options.seed;
    rank.batch = [this, number](uint32_t microbatch, const data::SampleRows& to) {
      hooks_.batch(number, microbatch, to);
    };
    rank.load = hooks_.load;
    rank.loads_states = hooks_.loads_states, rank.begins_anew = hooks_.begins_anew;
    // An alias is written only when it changes; its space must be reserved, or the disk may be full by then.
    if (hooks_.origin && member.file && member.file->space_taken() && programs.has("load")) {
      rank.aliases = std::make_shared<const Aliases>(programs, layout, mine.state, number, hooks_.origin,
                                                     hooks_.loads_states, member.file->piece());
    }
    if (rank.data == 0 && rank.tensor == 0) {
      rank.export_param = [this](const optimizer::Unit& unit, const optimizer::UnitParam& place, const float* weights) {
        if (!unit.counted_elsewhere) export_param_(place, weights);
      };
    }
    ExecutorOptions executor = options.executor;
    if (executor.host_threads == 0) {  // the results of what runs there do not depend on their number
      const auto cores = static_cast<int>(std::thread::hardware_concurrency());
      executor.host_threads = std::max(1, cores / std::max(1, transport_.host_count()));
    }
    member.executor = std::make_unique<Executor>(std::move(rank), programs, arenas, executor);
  });
}

Session::~Session() {
  for (Member& member : ranks_) member.executor.reset();
}

void Session::on_all_ranks(const std::function<void(size_t)>& body) {
  RankThreads threads;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    threads.start([this, &body, r] {
      std::optional<core::OnGpu> on_gpu;
      if (!gpus_.empty()) on_gpu.emplace(gpus_[r]);
      body(r);
    });
  }
  const std::vector<std::exception_ptr> errors = threads.join(grace(), hooks_.stuck);
  // A CommError is usually the echo of another rank's failure: prefer what caused it.
  std::exception_ptr chosen;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!chosen) chosen = error;
    try {
      std::rethrow_exception(error);
    } catch (const core::CommError&) {
    } catch (...) {
      std::rethrow_exception(error);
    }
  }
  if (chosen) std::rethrow_exception(chosen);
}

// On all ranks, or those of one stage. A stage that has nothing to refresh has no program for it.
void Session::run_on_ranks(std::string_view phase, const StepInputs& inputs, std::optional<size_t> only) {
  const bool makes_control = phase == "init" || phase == "load";
  on_all_ranks([&](size_t r) {
    const Compiled& mine = stage(static_cast<int>(r));
    if (only && &mine != &stages_[*only]) return;
    if (phase == "refresh" && !mine.set.has(phase)) return;
    Executor& executor = *ranks_[r].executor;
    if (!makes_control) executor.control().inputs = inputs;
    executor.run(mine.set.program(phase));
  });
}

bool Session::refreshes() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const Compiled& each) { return each.set.has("refresh"); });
}

void Session::finish_updates() {
  if (!updates_wait_) return;
  const StepInputs inputs = ranks_[0].executor->control().inputs;  // a copy: every rank writes its own
  run_on_ranks("update", inputs);
  updates_wait_ = false;
  stale_ = refreshes();
}

void Session::run(std::string_view phase, StepInputs inputs) {
  const bool step = phase == "step", saves = phase == "save";  // a save copies shards only
  const bool makes = phase == "init" || phase == "load";
  if (!step && !makes) finish_updates();
  if (stale_ && !step && !saves && !makes && phase != "refresh") {
    run_on_ranks("refresh", inputs);
  }
  updates_wait_ = step && stages_.front().layout.late_updates();
  stale_ = step ? refreshes() && !updates_wait_ : stale_ && saves;
  if (phase != "export") return run_on_ranks(phase, inputs);
  for (size_t s = 0; s < stages_.size(); ++s) run_on_ranks(phase, inputs, s);  // in the order of parameters
}

void Session::export_params(const std::function<void(const optimizer::UnitParam&, const float*)>& take) {
  export_param_ = take;
  run("export", ranks_[0].executor->control().inputs);
  export_param_ = nullptr;
}

void Session::export_weights(const std::function<void(const models::Param&, const float*)>& take) {
  export_params([&](const optimizer::UnitParam& place, const float* weights) { take(*place.param, weights); });
}

// Parameters come unit by unit and from the processes of several stages, so each is hashed by itself and the hashes are
// hashed in canonical order.
std::string Session::state_xxh3() {
  std::string own;
  export_params([&](const optimizer::UnitParam& place, const float* weights) {
    core::Hash hash;
    hash.update(weights, static_cast<size_t>(place.param->whole_elements()) * sizeof(float));
    own += fmt::format("{} {}\n", place.number, hash.hex());
  });
  std::map<uint32_t, std::string> ordered;
  for (const std::string& text : transport_.exchange(own, timeout_)) {
    std::istringstream lines(text);
    uint32_t number = 0;
    for (std::string hash; lines >> number >> hash;) ordered[number] = hash;
  }
  core::Hash whole;
  for (const auto& [number, hash] : ordered) whole.update(hash.data(), hash.size());
  return whole.hex();
}

}  // namespace zrt::runtime
