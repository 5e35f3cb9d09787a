#include "runtime/engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>

#include "core/error.h"
#include "core/hash.h"

namespace zrt::runtime {

namespace {

comm::Partition partition(const Group& group, int world) {
  comm::Partition parts(static_cast<size_t>(world / group.size));
  for (int rank = 0; rank < world; ++rank) {
    parts[static_cast<size_t>(rank / (group.size * group.stride) * group.stride + rank % group.stride)].push_back(rank);
  }
  return parts;
}

// Whether any op of a run communicates in a group.
bool used(const ProgramSet& set, GroupId group) {
  return std::any_of(set.lanes.begin(), set.lanes.end(), [&](const Lane& lane) {
    return lane.kind == LaneKind::comm && lane.group == set.groups[group].name;
  });
}

}  // namespace

Session::Session(const Layout& layout, Compiled compiled, SessionOptions options, SessionHooks hooks,
                 comm::Transport& transport)
    : layout_(layout),
      transport_(transport),
      timeout_(options.timeout),
      compiled_(std::move(compiled)),
      hooks_(std::move(hooks)) {
  make_ranks(options);
}

Session::Session(const Layout& layout, Compiled compiled, SessionOptions options, SessionHooks hooks)
    : layout_(layout),
      own_transport_(comm::make_thread_transport(layout.dp)),
      transport_(*own_transport_),
      timeout_(options.timeout),
      compiled_(std::move(compiled)),
      hooks_(std::move(hooks)) {
  make_ranks(options);
}

void Session::make_ranks(const SessionOptions& options) {
  if (transport_.world() != layout_.dp) {
    throw core::ConfigError(fmt::format("the configuration is for {} ranks but the run has {}; use --ranks {}",
                                        layout_.dp, transport_.world(), transport_.world()));
  }
  if (layout_.early_updates && (options.clip > 0 || options.loss_scale.dynamic)) {
    throw core::ConfigError(fmt::format(
        "updates that do not wait for the norm (memory.update_when = \"as_ready\") cannot be combined with {}",
        options.clip > 0 ? "clipping; set gradient_clipping to 0" : "a dynamic loss scale; set fp16.loss_scale"));
  }
  const ProgramSet& set = compiled_.set;
  std::vector<std::vector<std::unique_ptr<comm::Communicator>>> groups(set.groups.size());
  for (GroupId g = 0; g < groups.size(); ++g) {
    const Group& group = set.groups[g];
    if (g == 0) {
      groups[g] = transport_.make_group(group.name, options.timeout);  // of all ranks: the session itself uses it
    } else if (used(set, g)) {
      groups[g] = transport_.make_groups(group.name, partition(group, layout_.dp), options.timeout);
    }
  }
  ranks_.resize(groups[0].size());
  std::function<void(const std::string&)> warn;
  if (options.warn) {
    warn = [given = options.warn, mutex = std::make_shared<std::mutex>()](const std::string& text) {
      const std::lock_guard lock(*mutex);
      given(text);
    };
  }
  // Each rank fills its own arenas, so that its pages are first touched by the thread that will use them.
  on_all_ranks([&](size_t local) {
    Member& member = ranks_[local];
    const int number = first_local() + static_cast<int>(local);
    core::Arenas arenas{};
    for (size_t t = 0; t < core::tier_count; ++t) {
      if (compiled_.set.arena_bytes[t] == 0 || static_cast<core::Tier>(t) == core::Tier::nvme) continue;
      member.arenas[t] =
          transport_.make_arena(number, static_cast<core::Tier>(t), compiled_.set.arena_bytes[t], layout_.device);
      arenas[t] = member.arenas[t].get();
    }
    if (const uint64_t bytes = compiled_.set.bytes(core::Tier::nvme); bytes > 0) {
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
    member.up = member.down = offload::PacedLink(layout_.link_bytes_per_second);
    Rank rank;
    rank.file = member.file.get();
    rank.up = &member.up;
    rank.down = &member.down;
    rank.number = number;
    rank.layout = &layout_;
    for (auto& group : groups) {
      member.groups.push_back(group.empty() ? nullptr : std::move(group[local]));
      rank.groups.push_back(member.groups.back().get());
    }
    rank.loss_scale = options.loss_scale;
    rank.clip = options.clip;
    rank.seed = options.seed;
    rank.batch = [this, number](uint32_t microbatch, int32_t* tokens, int32_t* targets) {
      hooks_.batch(number, microbatch, tokens, targets);
    };
    rank.load = hooks_.load;
    rank.loads_states = hooks_.loads_states;
    if (number == 0) {
      rank.export_unit = [this](const optimizer::Unit& unit, const float* weights) { export_unit_(unit, weights); };
    }
    member.executor = std::make_unique<Executor>(std::move(rank), compiled_.set, arenas, options.executor);
  });
}

Session::~Session() {
  for (Member& member : ranks_) member.executor.reset();
}

void Session::on_all_ranks(const std::function<void(size_t)>& body) {
  RankThreads threads;
  for (size_t r = 0; r < ranks_.size(); ++r) threads.start([&body, r] { body(r); });
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

void Session::run_on_ranks(const Program& program, const StepInputs& inputs) {
  const bool makes_control = program.phase == "init" || program.phase == "load";
  on_all_ranks([&](size_t r) {
    Executor& executor = *ranks_[r].executor;
    if (!makes_control) executor.control().inputs = inputs;
    executor.run(program);
  });
}

void Session::run(std::string_view phase, StepInputs inputs) {
  const bool step = phase == "step", saves = phase == "save";  // a save copies shards only
  const bool makes = phase == "init" || phase == "load";
  if (stale_ && !step && !saves && !makes && phase != "refresh") {
    run_on_ranks(compiled_.set.program("refresh"), inputs);
  }
  stale_ = step ? compiled_.set.has("refresh") : stale_ && saves;
  run_on_ranks(compiled_.set.program(phase), inputs);
}

void Session::export_weights(const std::function<void(const models::Param&, const float*)>& take) {
  export_unit_ = [&](const optimizer::Unit& unit, const float* weights) {
    for (const optimizer::UnitParam& place : unit.params) take(*place.param, weights + place.offset);
  };
  run("export", ranks_[0].executor->control().inputs);
  export_unit_ = nullptr;
}

// Parameters come unit by unit, so each is hashed by itself and the hashes are hashed in canonical order.
std::string Session::state_xxh3() {
  std::map<std::string, std::string> hashes;
  export_weights([&](const models::Param& param, const float* weights) {
    core::Hash hash;
    hash.update(weights, static_cast<size_t>(param.elements()) * sizeof(float));
    hashes[param.name] = hash.hex();
  });
  if (!transport_.leads()) return "";
  core::Hash whole;
  for (const auto& ref : layout_.model->canonical_params()) {
    const std::string& hash = hashes.at(layout_.model->blocks[ref.block]->params()[ref.index].name);
    whole.update(hash.data(), hash.size());
  }
  return whole.hex();
}

}  // namespace zrt::runtime
