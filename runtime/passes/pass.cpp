#include "runtime/passes/pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/passes/offload.h"
#include "runtime/passes/staging.h"

namespace zrt::runtime {
namespace {

bool always(const Layout&) {
  return true;
}

bool moves(const Layout& layout) {
  return layout.placement.moves();
}

bool prefetches(const Layout& layout) {
  return layout.overlap || layout.placement.moves();
}

// A pass that is a function of a draft.
template <void (*rewrite_draft)(Draft&, Compilation&)>
std::unique_ptr<Pass> function_pass(Compilation& compilation) {
  class Function : public Pass {
   public:
    explicit Function(Compilation& compilation) : compilation_(compilation) {}
    void rewrite(Draft& draft) override { rewrite_draft(draft, compilation_); }

   private:
    Compilation& compilation_;
  };
  return std::make_unique<Function>(compilation);
}

// One that works on the finished set.
template <void (*finish_set)(Compilation&)>
std::unique_ptr<Pass> set_pass(Compilation& compilation) {
  class Finish : public Pass {
   public:
    explicit Finish(Compilation& compilation) : compilation_(compilation) {}
    void finish() override { finish_set(compilation_); }

   private:
    Compilation& compilation_;
  };
  return std::make_unique<Finish>(compilation);
}

std::unique_ptr<Pass> make_state(Compilation& c) {
  c.state = add_state(c.set, c.layout, c.training());
  return std::make_unique<Pass>();
}

void schedule(Draft& draft, Compilation& c) {
  if (draft.phase == "step") draft = schedule_step(c.set, c.layout, c.blocks, c.state);
  if (draft.phase == "eval") draft = schedule_eval(c.set, c.layout, c.blocks, c.state);
  if (draft.phase == "decode") draft = schedule_decode(c.set, c.layout, c.blocks, c.state);
}

void phases(Draft& draft, Compilation& c) {
  if (draft.phase == "init" || draft.phase == "load") draft = make_init(c.layout, c.state, draft.phase == "load");
  if (draft.phase == "save") draft = make_save(c.set, c.layout, c.state);
  if (draft.phase == "export") draft = make_export(c.set, c.layout, c.state);
  if (draft.phase == "update") draft = make_update(c.set, c.layout, c.state);
  if (draft.phase == "refresh") draft = make_refresh(c.set, c.layout, c.state);
}

void zero(Draft& draft, Compilation& c) {
  if (draft.phase == "step" || draft.phase == "eval" || draft.phase == "decode") {
    apply_zero(draft, c.set, c.layout, c.state);
  }
}

std::unique_ptr<Pass> make_offload(Compilation& c) {
  return std::make_unique<Offload>(c.set, c.layout, c.blocks, c.state);
}

void move_ahead(Draft& draft, Compilation& c) {
  prefetch(draft, c.set, c.layout);
}

void wait(Draft& draft, Compilation& c) {
  add_waits(draft, c.set, c.layout);
}

// Drops buffers that no op uses: a copy that stays from its making to its last use is never evicted to its resident
// buffer.
void drop_unused(Compilation& c) {
  std::vector<uint8_t> used(c.set.buffers.size());
  for (const Program& program : c.set.programs) {
    for (const Op& op : program.ops) {
      for (const Access& access : op.accesses) used[access.buffer] = 1;
    }
  }
  for (BufferId b = 0; b < used.size(); ++b) {
    Buffer& buffer = c.set.buffers[b];
    if (used[b] || buffer.life == Life::carried) continue;
    buffer.bytes = 0, buffer.slots = 1, buffer.tier = Tier::device;
    buffer.slot_table.clear();
  }
}

void memory(Compilation& c) {
  assign_memory(c.set, c.sabotage);
}

std::vector<PassSpec>& registered() {
  static std::vector<PassSpec> all{
      {"state", always, make_state},
      {"schedule", always, function_pass<schedule>},
      {"phases", always, function_pass<phases>},
      {"zero", always, function_pass<zero>},
      {"offload", moves, make_offload},
      {"prefetch", prefetches, function_pass<move_ahead>},
      {"waits", always, function_pass<wait>},
      {"unused", moves, set_pass<drop_unused>, true},
      {"staging", leaves_reach, set_pass<add_staging>, true},
      {"memory", always, set_pass<memory>, true},
  };
  return all;
}

}  // namespace

bool Compilation::training() const {
  return std::find(phases.begin(), phases.end(), "step") != phases.end();
}

const std::vector<PassSpec>& passes() {
  return registered();
}

void register_pass(PassSpec pass, std::string_view behind) {
  std::vector<PassSpec>& all = registered();
  const auto called = [&](std::string_view name) {
    return std::find_if(all.begin(), all.end(), [&](const PassSpec& other) { return other.name == name; });
  };
  if (called(pass.name) != all.end()) {
    throw core::ConfigError(fmt::format("there is a pass '{}' already; register another name", pass.name));
  }
  const auto place = called(behind);
  if (place == all.end()) {
    std::vector<std::string_view> names;
    names.reserve(all.size());
    for (const PassSpec& other : all) names.push_back(other.name);
    throw core::ConfigError(fmt::format("there is no pass '{}' that '{}' could stand behind; the passes are {}", behind,
                                        pass.name, fmt::join(names, ", ")));
  }
  all.insert(place + 1, std::move(pass));
}

}  // namespace zrt::runtime
