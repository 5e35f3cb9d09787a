// Broken programs of pipelines: each kind is refused, with both ops named.
#include <functional>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/spec.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::pipeline_faults_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;
using models::Half;

namespace {

// Three stages of a tied model, five microbatches; interleaved six, two chunks a stage.
struct Subject {
  models::Model model;
  Setting s;
  std::unique_ptr<Pipeline> pipeline;
  std::vector<ProgramSet> sets;

  explicit Subject(ScheduleKind kind = ScheduleKind::one_f_one_b)
      : model(make_toy(kind == ScheduleKind::interleaved ? 10 : 4, 6, 11, 3, true, false)) {
    const bool interleaved = kind == ScheduleKind::interleaved;
    s.accumulation = s.reduce_every = interleaved ? 6 : 5, s.micro_batch = 1, s.stage = 2, s.overlap = true;
    s.schedule.kind = kind, s.schedule.stages = 3;
    if (interleaved) s.schedule.chunks = 2, s.schedule.group = 3;
    pipeline = std::make_unique<Pipeline>(model, s, even_ends(model, interleaved ? 6 : 3));
    for (const Compiled& stage : pipeline->compile(s)) sets.push_back(stage.set);
  }
  Program& step(size_t stage) {
    for (Program& program : sets[stage].programs) {
      if (program.phase == "step") return program;
    }
    throw core::ProgramError("there is no step");
  }
  // The nth op of a kind, of those that name a role.
  OpId find(size_t stage, OpKind kind, std::optional<Role> role = {}, size_t n = 0) {
    const Program& program = step(stage);
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const Op& op = program.ops[id];
      const bool names = !role || std::any_of(op.accesses.begin(), op.accesses.end(),
                                              [&](const Access& access) { return access.role == *role; });
      if (op.kind == kind && names && n-- == 0) return id;
    }
    FAIL("no such op");
    return 0;
  }
  Op& op(size_t stage, OpKind kind, std::optional<Role> role = {}, size_t n = 0) {
    return step(stage).ops[find(stage, kind, role, n)];
  }
  // Returns the half of a microbatch's backward of a block in the middle stage.
  OpId half(Half half, uint32_t microbatch) {
    const Program& program = step(1);
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const Op& op = program.ops[id];
      if (op.kind == OpKind::backward && op.block == 1 && op.half == half && op.microbatch.first == microbatch)
        return id;
    }
    FAIL("there is no such half");
    return 0;
  }
  // Moves an op elsewhere: nothing waits for it any more, and it waits for nothing.
  void move(OpId from, OpId to) {
    Op op = step(1).ops[from];
    op.waits.clear();
    remove(1, from);
    insert(1, to, op);
  }
  // Takes an op out of its segment; what waited for it waits no more.
  void remove(size_t stage, OpId gone) {
    Program& program = step(stage);
    program.ops.erase(program.ops.begin() + gone);
    for (Op& op : program.ops) {
      std::erase(op.waits, gone);
      for (OpId& wait : op.waits) wait -= wait > gone;
    }
    for (Segment& segment : program.segments) {
      if (segment.first > gone)
        --segment.first;
      else if (gone < segment.first + segment.count)
        --segment.count;
    }
  }
  void insert(size_t stage, OpId at, Op op) {
    Program& program = step(stage);
    program.ops.insert(program.ops.begin() + at, std::move(op));
    for (OpId id = 0; id < program.ops.size(); ++id) {
      for (OpId& wait : program.ops[id].waits) wait += wait >= at;
    }
    for (Segment& segment : program.segments) {
      if (segment.first > at)
        ++segment.first;
      else if (at <= segment.first + segment.count && at >= segment.first) {
        ++segment.count;
        break;
      }
    }
    // Segments behind the one that grew begin later.
    OpId next = 0;
    for (Segment& segment : program.segments) segment.first = next, next += segment.count;
  }
  void check() const {
    for (size_t i = 0; i < sets.size(); ++i) verify(sets[i], pipeline->layouts[i]);
    std::vector<const ProgramSet*> ranks;
    for (const ProgramSet& set : sets) ranks.push_back(&set);
    verify_collectives(ranks);
  }
};

struct Fault {
  const char* name;
  std::function<void(Subject&)> plant;
  ScheduleKind kind = ScheduleKind::one_f_one_b;
};

// The slots that the chunks of the middle stage share, of what they save.
Buffer& shared_slots(Subject& s) {
  for (Buffer& buffer : s.sets[1].buffers) {
    if (!buffer.slot_table.empty() && buffer.name.starts_with("saved")) return buffer;
  }
  throw core::ProgramError("chunks share nothing");
}

std::vector<Fault> faults() {
  const auto removed = [](size_t stage, OpKind kind, std::optional<Role> role, size_t n = 0) {
    return [=](Subject& s) { s.remove(stage, s.find(stage, kind, role, n)); };
  };
  const auto swapped = [](size_t stage, OpKind kind, Role role) {
    return [=](Subject& s) { std::swap(s.op(stage, kind, role, 1).microbatch, s.op(stage, kind, role, 2).microbatch); };
  };
  return {
      {"the receive of an input is missing", removed(1, OpKind::receive, Role::input, 2)},
      {"the send of an output is missing", removed(0, OpKind::send, Role::output, 2)},
      {"the receive of a gradient is missing", removed(1, OpKind::receive, Role::d_output, 2)},
      {"the send of a gradient is missing", removed(2, OpKind::send, Role::d_input, 2)},
      {"receives of inputs are swapped", swapped(1, OpKind::receive, Role::input)},
      {"receives of gradients are swapped", swapped(0, OpKind::receive, Role::d_output)},
      {"sends of outputs are swapped", swapped(0, OpKind::send, Role::output)},
      {"sends of gradients are swapped", swapped(2, OpKind::send, Role::d_input)},
      {"a forward reads the slot of another microbatch",
       [](Subject& s) {
         Op& op = s.op(1, OpKind::forward, Role::input, 0);
         for (Access& access : op.accesses) {
           if (access.role == Role::input)
             access.slot.first = (access.slot.first + 1) % s.sets[1].buffers[access.buffer].slots;
         }
       }},
      {"a receive writes the slot of another microbatch",
       [](Subject& s) {
         Access& access = s.op(1, OpKind::receive, Role::input, 1).accesses.front();
         access.slot.first = (access.slot.first + 1) % s.sets[1].buffers[access.buffer].slots;
       }},
      {"what is received has a slot too few",
       [](Subject& s) {
         const BufferId input = s.op(1, OpKind::receive, Role::input).accesses.front().buffer;
         --s.sets[1].buffers[input].slots;
       }},
      {"a sent output has a slot too few",
       [](Subject& s) {
         const BufferId output = s.op(0, OpKind::send, Role::output).accesses.front().buffer;
         for (Op& op : s.step(0).ops) {
           for (Access& access : op.accesses) {
             if (access.buffer == output) access.slot = {};
           }
         }
         s.sets[0].buffers[output].slots = 1;
       }},
      {"a forward does not wait for what it is given",
       [](Subject& s) {
         const OpId from = s.find(1, OpKind::receive, Role::input, 1);
         for (Op& op : s.step(1).ops) std::erase(op.waits, from);
       }},
      {"a send does not wait for what makes it",
       [](Subject& s) { s.op(0, OpKind::send, Role::output, 1).waits.clear(); }},
      {"a receive does not wait for who still reads the slot",
       [](Subject& s) {
         for (Op& op : s.step(2).ops) {
           if (op.kind == OpKind::receive) op.waits.clear();
         }
       }},
      {"a microbatch is sent twice",
       [](Subject& s) {
         const OpId at = s.find(0, OpKind::send, Role::output, 1);
         s.insert(0, at, s.step(0).ops[at]);
       }},
      {"a stage does not share its control block", removed(1, OpKind::share_control, {})},
      {"the copies of the embedding are not added up", removed(0, OpKind::reduce_grad, {}, 0)},
      {"the sum of copies is missing on the last stage",
       [](Subject& s) {
         for (OpId id = 0; id < s.step(2).ops.size(); ++id) {
           if (s.step(2).ops[id].name.starts_with("reduce copies")) return s.remove(2, id);
         }
       }},
      {"the copies are added up twice",
       [](Subject& s) {
         for (size_t stage : {0, 2}) {
           for (OpId id = 0; id < s.step(stage).ops.size(); ++id) {
             if (!s.step(stage).ops[id].name.starts_with("reduce copies")) continue;
             s.insert(stage, id, s.step(stage).ops[id]);
             break;
           }
         }
       }},
      {"the norm of a copy is taken on both stages",
       [](Subject& s) {
         Op op = s.op(2, OpKind::norm);
         const auto& units = s.pipeline->layouts[2].units.units;
         for (uint32_t u = 0; u < units.size(); ++u) {
           if (!units[u].counted_elsewhere) continue;
           op.units = {u};
           for (const Op& update : s.step(2).ops) {
             if (update.kind != OpKind::update || update.units[0] != u) continue;
             for (const Access& access : update.accesses) {
               if (access.role == Role::grad) op.accesses[0].buffer = access.buffer;
             }
           }
         }
         s.insert(2, s.find(2, OpKind::norm), op);
       }},
      {"one stage has the order of another schedule",
       [](Subject& s) {
         // The last one wants all forwards before the first backward, and has the room; the others do not give them.
         Setting other = s.s;
         other.schedule.kind = ScheduleKind::gpipe;
         Pipeline pipeline(s.model, other, even_ends(s.model, 3));
         const Compiled compiled = compile(pipeline.layouts[2], phases_of(other));
         s.sets[2] = compiled.set;
         s.pipeline->layouts[2].stage = pipeline.layouts[2].stage;
       }},
      {"the sides of a boundary differ in bytes",
       [](Subject& s) {
         const BufferId output = s.op(0, OpKind::send, Role::output).accesses.front().buffer;
         s.sets[0].buffers[output].bytes += 4;
       }},
      {"an output goes the way of gradients",
       [](Subject& s) {
         const Op& back = s.op(0, OpKind::receive, Role::d_output);
         Op& send = s.op(0, OpKind::send, Role::output, 1);
         send.group = back.group, send.lane = back.lane;
       }},
      {"a send waits for a backward that needs what it sends",
       [](Subject& s) {
         const OpId backward = s.find(0, OpKind::backward);
         Op late = s.op(0, OpKind::send, Role::output, 0);
         s.remove(0, s.find(0, OpKind::send, Role::output, 0));
         late.waits = {backward};
         s.insert(0, s.find(0, OpKind::backward) + 1, late);
       }},
      {"a backward runs twice",
       [](Subject& s) {
         const OpId at = s.find(1, OpKind::backward, {}, 1);
         Op again = s.step(1).ops[at];
         s.insert(1, at, again);
       }},
      {"gradients of weights are made twice",
       [](Subject& s) {
         const OpId at = s.half(Half::weight, 1);
         s.insert(1, at, s.step(1).ops[at]);
       },
       ScheduleKind::zb_h1},
      {"gradients of weights come before those of inputs",
       [](Subject& s) { s.move(s.half(Half::weight, 1), s.half(Half::input, 1)); }, ScheduleKind::zb_h1},
      {"gradients of weights are missing", [](Subject& s) { s.remove(1, s.half(Half::weight, 2)); },
       ScheduleKind::zb_h1},
      {"gradients of weights are summed in another order",
       [](Subject& s) {
         Op &one = s.step(1).ops[s.half(Half::weight, 2)], &two = s.step(1).ops[s.half(Half::weight, 3)];
         std::swap(one.microbatch, two.microbatch);
         std::swap(one.accesses, two.accesses);
       },
       ScheduleKind::zb_h1},
      {"gradients are reduced before the last of weights",
       [](Subject& s) {
         const std::vector<uint32_t> units = s.step(1).ops[s.half(Half::weight, 4)].units;
         OpId reduce = s.find(1, OpKind::reduce_grad);
         while (s.step(1).ops[reduce].kind != OpKind::reduce_grad || s.step(1).ops[reduce].units[0] != units[0])
           ++reduce;
         s.move(reduce, s.half(Half::weight, 4));
       },
       ScheduleKind::zb_h1},
      {"what weights' gradients are made of has a slot too few",
       [](Subject& s) {
         for (const Access& access : s.step(1).ops[s.half(Half::weight, 0)].accesses) {
           if (access.role == Role::held) --s.sets[1].buffers[access.buffer].slots;
         }
       },
       ScheduleKind::zb_h1},
      {"weights' gradients are made of another microbatch",
       [](Subject& s) {
         for (Access& access : s.step(1).ops[s.half(Half::weight, 1)].accesses) {
           if (access.role == Role::held) access.slot.first = (access.slot.first + 1) % 2;
         }
       },
       ScheduleKind::zb_h1},
      {"two chunks have one slot at a time",
       [](Subject& s) {
         std::vector<uint32_t>& table = shared_slots(s).slot_table;
         table[6] = table[0];  // the first microbatch of each
       },
       ScheduleKind::interleaved},
      {"a chunk is given a slot that does not exist",
       [](Subject& s) {
         Buffer& buffer = shared_slots(s);
         buffer.slot_table[7] = buffer.slots;
       },
       ScheduleKind::interleaved},
      {"the table of slots ends before the last chunk", [](Subject& s) { shared_slots(s).slot_table.resize(6); },
       ScheduleKind::interleaved},
  };
}

// Counts how often a message names an op: twice where two have one name.
size_t named(const Subject& subject, const std::string& message) {
  std::set<std::string> names;
  for (const ProgramSet& set : subject.sets) {
    for (const Program& program : set.programs) {
      for (const Op& op : program.ops) names.insert(op.name);
    }
  }
  size_t count = 0;
  for (const std::string& name : names) {
    for (const char* end : {"'", " ["}) {  // a collective's kind and bytes follow its name
      const std::string quoted = std::string("'").append(name).append(end);
      for (size_t at = message.find(quoted); at != std::string::npos; at = message.find(quoted, at + 1)) ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("pipelines as they are compiled are accepted") {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    const Subject subject(kind);
    CHECK_NOTHROW(subject.check());
  }
}

TEST_CASE("every kind of broken pipeline is refused, and the message names two ops") {
  const std::vector<Fault> all = faults();
  CHECK(all.size() >= 20);
  for (const Fault& fault : all) {
    Subject subject(fault.kind);
    fault.plant(subject);
    INFO(fault.name);
    try {
      subject.check();
      FAIL_CHECK("is accepted");
    } catch (const core::ProgramError& error) {
      CAPTURE(error.what());
      CHECK(named(subject, error.what()) >= 2);
    }
  }
}

namespace {

// The next send behind a receive in its segment that nothing between them keeps apart; none: the receive's own number.
OpId send_behind(const Program& step, OpId receive) {
  const Segment& segment = *std::find_if(step.segments.begin(), step.segments.end(), [&](const Segment& each) {
    return receive >= each.first && receive < each.first + each.count;
  });
  for (OpId id = receive + 1; id < segment.first + segment.count; ++id) {
    const Op& op = step.ops[id];
    const bool uses = std::any_of(op.accesses.begin(), op.accesses.end(), [&](const Access& access) {
      return access.buffer == step.ops[receive].accesses.front().buffer;
    });
    if (uses || op.kind == OpKind::receive) return receive;
    if (op.kind == OpKind::send) return id;
  }
  return receive;
}

}  // namespace

TEST_CASE(
    "a receive behind the send that follows it is refused where the neighbour waits for that receive, with both "
    "named") {
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
    Subject subject(kind);
    size_t swapped = 0, refused = 0;
    for (size_t stage = 0; stage < 3; ++stage) {
      for (OpId id = 0; id < subject.step(stage).ops.size(); ++id) {
        const OpId send = send_behind(subject.step(stage), id);
        if (subject.step(stage).ops[id].kind != OpKind::receive || send == id) continue;
        ++swapped;
        ProgramSet changed = subject.sets[stage];
        move_op(program_of(changed, "step"), id, send);
        std::vector<const ProgramSet*> ranks;
        for (const ProgramSet& set : subject.sets) ranks.push_back(&set);
        ranks[stage] = &changed;
        try {
          verify_collectives(ranks);
        } catch (const core::ProgramError& error) {
          ++refused;
          const std::string message = error.what();
          CAPTURE(message);
          CHECK(message.find("would stand still for ever") != std::string::npos);
          CHECK(message.find("'" + subject.step(stage).ops[send].name + "'") != std::string::npos);
          CHECK(named(subject, message) >= 2);
        }
      }
    }
    CAPTURE(schedule_name(kind), swapped, refused);
    CHECK(refused > 0);
  }
}

}  // namespace zrt::pipeline_faults_test
