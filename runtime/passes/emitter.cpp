#include "runtime/passes/emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/passes/collectives.h"

namespace zrt::runtime {

using core::Category;
using models::Block;
using models::Mode;

Emitter::Emitter(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& plans, const StateBuffers& state,
                 Mode mode, const std::vector<AliveSlots>& alive, const std::vector<Work>& list)
    : set_(set),
      blocks_(layout.model->blocks),
      state_(state),
      shape_(layout.shape(mode)),
      layout_(layout),
      phase_(mode == Mode::train  ? ""
             : mode == Mode::eval ? "eval "
                                  : "decode "),
      pools_(set, list, layout.microbatches),
      buffers_(blocks_.size()),
      plans_(plans) {
  add_batches(alive);
  const uint64_t rows = static_cast<uint64_t>(shape_.rows());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = *blocks_[b];
    const bool last = layout.model->predicts(b);
    const AliveSlots& here = alive[alive.size() == 1 ? 0 : b];
    const uint64_t logits = mode == Mode::decode ? rows * 4 * static_cast<uint64_t>(layout.model->vocab) : 0;
    chunk_.push_back(here.chunk);
    if (last) {
      buffers_[b].output = add("output of " + block.name(), Category::activations, logits, here.activations);
    } else if (layout.model->sends(b)) {
      buffers_[b].output = add("output of " + block.name(), Category::activations,
                               layout.boundary_bytes(block.output_width(), shape_), here.handed);
    } else {
      buffers_[b].output = keep("output", b, plans_[b + 1].input_tier(), width_bytes(b), here.activations);
    }
    buffers_[b].forward_workspace =
        add("forward workspace of " + block.name(), Category::workspace, block.forward_workspace_bytes(shape_of(b)), 1);
    if (mode == Mode::decode) {
      buffers_[b].cache =
          add("cache of " + block.name(), Category::activations, block.cache_bytes(shape_of(b)), 1, Life::carried);
    }
    if (layout.model->receives(b)) {
      const uint64_t bytes = layout.boundary_bytes(layout.model->input_width(b), shape_);
      buffers_[b].received = keep("input", b, plans_[b].input_tier(), bytes, here.received, here.arriving);
      if (mode == Mode::train) {
        buffers_[b].d_received = add("gradient of input of " + block.name(), Category::activations, bytes, here.handed);
      }
    }
    const std::vector<models::Parts> runs = plans_[b].runs(models::forward_parts(block, mode), false);
    const std::vector<models::Parts> backwards =
        mode == Mode::train ? plans_[b].runs(block.anatomy().all(), true) : std::vector<models::Parts>{};
    buffers_[b].ports = add_ports(b, runs, "", backwards, 1);
    if (mode == Mode::train) add_training(b, here);
    if (mode != Mode::train && runs.size() > 1) {
      buffers_[b].saved = add("saved of " + block.name(), Category::activations,
                              models::lay_out_saved(block, shape_of(b), block.anatomy().all()), 1);
    }
  }
  pools_.assign();
}

BufferId Emitter::keep(const char* kind, size_t b, core::Tier tier, uint64_t bytes, uint32_t slots, uint32_t spare) {
  const std::string& block = blocks_[b]->name();
  if (tier != core::Tier::device || bytes == 0)
    return add(fmt::format("{} of {}", kind, block), Category::activations, bytes, slots);
  return pools_.keep(phase_ + std::string(kind), block, {{}, Category::activations, Life::transient, bytes, slots, 0},
                     chunk_[b], spare);
}

std::vector<BufferId> Emitter::add_ports(size_t b, const std::vector<models::Parts>& runs, const std::string& name,
                                         const std::vector<models::Parts>& backwards, uint32_t held) {
  const std::vector<models::Port>& ports = blocks_[b]->anatomy().ports;
  std::vector<BufferId> buffers(ports.size(), no_buffer);
  for (size_t p = 0; p < ports.size(); ++p) {
    const bool ends = std::any_of(runs.begin(), runs.end() - 1,
                                  [&](const models::Parts& run) { return run.end == ports[p].part + 1; });
    const bool comes_again = std::any_of(backwards.begin(), backwards.end(),
                                         [&](const models::Parts& run) { return plans_[b].reads_back(ports[p], run); });
    if (!ends && !comes_again) continue;
    buffers[p] = add_port(b, p, name, ports[p].seam.of_product() ? held : 1);
  }
  return buffers;
}

BufferId Emitter::add_port(size_t b, size_t port, const std::string& name, uint32_t slots) {
  const models::Port& of = blocks_[b]->anatomy().ports[port];
  return add(fmt::format("{}{} of {}", name, of.name, blocks_[b]->name()), Category::activations,
             plans_[b].port_bytes(of, shape_), slots);
}

void Emitter::add_training(size_t b, const AliveSlots& alive) {
  const uint32_t slots = layout_.model->embeds(b) ? std::max(alive.first, alive.activations) : alive.activations;
  const Block& block = *blocks_[b];
  const BlockPlan& plan = plans_[b];
  const models::Parts left_out = plan.left_out();
  buffers_[b].saved = keep("saved", b, layout_.placement.activation(static_cast<uint32_t>(b)),
                           models::lay_out_saved(block, shape_of(b), block.anatomy().all(), left_out), slots);
  buffers_[b].recomputed =
      add("recompute of " + block.name(), Category::recompute, models::lay_out_saved(block, shape_of(b), left_out), 1);
  const bool apart = plan.weights_apart();
  uint64_t held = 0, workspace = 0;
  for (const BackwardRun& run : plan.backward()) {
    if (run.half == models::Half::input) {
      held = std::max(held, models::lay_out_held(block, shape_of(b), plan.held_parts(run.parts)));
    }
    workspace = std::max(workspace, block.backward_workspace_bytes(shape_of(b), run.parts, run.half));
  }
  buffers_[b].held = add("held of " + block.name(), Category::activations, held, apart ? alive.held : 1);
  buffers_[b].d_ports =
      add_ports(b, plan.runs(block.anatomy().all(), true), "gradient of ", {}, apart ? alive.held : 1);
  // Forwards of other microbatches come before gradients of weights are made.
  buffers_[b].again = buffers_[b].ports;
  for (size_t p = 0; apart && p < buffers_[b].again.size(); ++p) {
    if (plan.reads_back(block.anatomy().ports[p], block.anatomy().all()))
      buffers_[b].again[p] = add_port(b, p, "brought ", alive.held);
  }
  const uint64_t output_bytes = layout_.model->predicts(b) ? 0
                                : layout_.model->sends(b)  ? layout_.boundary_bytes(block.output_width(), shape_)
                                                           : width_bytes(b);
  buffers_[b].d_output = add("gradient of output of " + block.name(), Category::activations, output_bytes,
                             layout_.model->sends(b)    ? alive.returned
                             : layout_.model->embeds(b) ? std::max(alive.first, alive.gradients)
                                                        : alive.gradients);
  buffers_[b].backward_workspace = add("backward workspace of " + block.name(), Category::workspace, workspace, 1);
}

void Emitter::link(DraftSegment& segment, WorkKind work, size_t block, Index microbatch) const {
  const Buffers& buffers = buffers_[block];
  const bool forward = work == WorkKind::receive_input || work == WorkKind::send_output;
  const bool before = work == WorkKind::receive_input || work == WorkKind::send_gradient;
  const bool sends = work == WorkKind::send_output || work == WorkKind::send_gradient;
  const auto [buffer, role] = work == WorkKind::receive_input   ? std::pair(buffers.received, Role::input)
                              : work == WorkKind::send_output   ? std::pair(buffers.output, Role::output)
                              : work == WorkKind::send_gradient ? std::pair(buffers.d_received, Role::d_input)
                                                                : std::pair(buffers.d_output, Role::d_output);
  const OpKind kind = sends ? OpKind::send : OpKind::receive;
  const int last = layout_.stage.schedule.stages - 1, boundary = layout_.stage.index - (before ? 1 : 0);
  Op op = make(kind, 0, fmt::format("{} {} of {}", op_kind_name(kind), role_name(role), blocks_[block]->name()), block,
               microbatch);
  op.units.clear();
  const bool wraps = boundary < 0 || boundary == last;
  place_in(set_, op, wraps ? wrap_name(forward) : link_name(boundary % 2 != 0, forward));
  access(op, buffer, role, sends ? Use::read : Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::gather_received(DraftSegment& segment, size_t block, BufferId buffer, Role role, Index microbatch) const {
  if (layout_.mesh.tensor() == 1 || layout_.shares_rows()) return;
  Op gather = make(OpKind::gather_received, 0, fmt::format("gather {} of {}", role_name(role), blocks_[block]->name()),
                   block, microbatch);
  gather.units.clear();
  place_in(set_, gather, Axis::tensor);
  access(gather, buffer, role, Use::update);
  segment.ops.push_back(std::move(gather));
}

std::string Emitter::run_name(const char* what, size_t b, models::Parts run, models::Parts whole) const {
  std::string name = fmt::format("{} {}", what, blocks_[b]->name());
  if (run == whole) return name;
  const auto& parts = blocks_[b]->anatomy().parts;
  return fmt::format("{} {}", name, fmt::join(parts.begin() + run.first, parts.begin() + run.end, ", "));
}

void Emitter::access_ports(Op& op, const std::vector<BufferId>& ports, Role role, size_t taken, size_t handed) const {
  const std::vector<models::Port>& all = blocks_[op.block]->anatomy().ports;
  for (size_t p = 0; p < ports.size(); ++p) {
    if (ports[p] == no_buffer || (all[p].part != taken && all[p].part != handed)) continue;
    // An op works in place on what stays with the rank, but for the gradients of weights.
    const bool stays = all[p].seam.stays() && role == Role::d_port && op.half != models::Half::weight;
    const Use use = all[p].part == handed ? Use::write : stays ? Use::update : Use::read;
    access(op, ports[p], role, use);
    op.accesses.back().port = static_cast<uint8_t>(p);
  }
}

void Emitter::exchange(DraftSegment& segment, size_t b, Index microbatch, size_t part,
                       const std::vector<BufferId>& buffers, bool gradients) {
  const std::vector<models::Port>& all = blocks_[b]->anatomy().ports;
  for (size_t p = 0; p < all.size(); ++p) {
    const models::Collective collective = plans_[b].collective(all[p], gradients);
    if (all[p].part != part || collective == models::Collective::none) continue;
    Op op = make(OpKind::exchange, 0,
                 fmt::format("exchange {}{} of {}", gradients ? "gradient of " : "", all[p].name, blocks_[b]->name()),
                 b, microbatch);
    op.units.clear();
    op.port = static_cast<uint8_t>(p), op.collective = collective;
    op.again = &buffers == &buffers_[b].again && plans_[b].recompute() == Recompute::full;
    place_in(set_, op, all[p].seam.axis);
    access(op, buffers[p], gradients ? Role::d_port : Role::port, Use::update);
    op.accesses.back().port = op.port;
    if (const uint8_t by = all[p].used_by; by != models::Port::all_used) {
      access(op, buffers[by], gradients ? Role::d_port : Role::port, Use::read);
      op.accesses.back().port = by;
    }
    segment.ops.push_back(std::move(op));
  }
}

void Emitter::forward(DraftSegment& segment, size_t b, Index microbatch) {
  if (layout_.model->receives(b)) gather_received(segment, b, buffers_[b].received, Role::input, microbatch);
  const models::Parts whole = models::forward_parts(*blocks_[b], shape_.mode);
  for (const models::Parts& run : plans_[b].runs(whole, false)) {
    forward_run(segment, b, microbatch, run, whole);
    if (run.end < whole.end) exchange(segment, b, microbatch, run.end - 1u, buffers_[b].ports, false);
  }
}

void Emitter::forward_run(DraftSegment& segment, size_t b, Index microbatch, models::Parts run, models::Parts whole) {
  const Mode mode = shape_.mode;
  const OpKind kind = mode == Mode::train ? OpKind::forward : mode == Mode::eval ? OpKind::evaluate : OpKind::decode;
  const models::Anatomy& anatomy = blocks_[b]->anatomy();
  Op op = make(kind, compute_lane, run_name("forward", b, run, whole), b, microbatch);
  op.parts = run;
  const bool begins = run.first == whole.first;
  const bool reads_input = run.first <= anatomy.input_part;
  if (layout_.model->embeds(b) && reads_input) access(op, tokens_, Role::tokens, Use::read);
  read_positions(op);
  if (reads_input) access(op, input_of(b), Role::input, Use::read);
  if (run.end == whole.end) access(op, buffers_[b].output, Role::output, Use::write);
  access(op, buffers_[b].saved, Role::saved, begins ? Use::write : Use::update);
  access(op, buffers_[b].recomputed, Role::recomputed, begins ? Use::write : Use::update);
  access_ports(op, buffers_[b].ports, Role::port, run.first - 1u, run.end - 1u);
  access(op, buffers_[b].cache, Role::cache, Use::update);
  const bool evaluates = layout_.model->predicts(b) && mode == Mode::eval;
  if (evaluates) access(op, targets_, Role::targets, Use::read);
  if ((evaluates && run.has(anatomy.loss_part(false))) || mode == Mode::decode) {
    access(op, state_.control, Role::control, Use::update);
  }
  access(op, buffers_[b].forward_workspace, Role::workspace, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::recompute(DraftSegment& segment, size_t b, Index microbatch) {
  const models::Anatomy& anatomy = blocks_[b]->anatomy();
  const models::Parts whole = plans_[b].rerun();
  for (const models::Parts& run : plans_[b].runs(whole, false)) {
    Op op = make(OpKind::recompute, compute_lane, run_name("recompute", b, run, whole), b, microbatch);
    op.parts = run;
    read_positions(op);
    if (run.first <= anatomy.input_part) access(op, input_of(b), Role::input, Use::read);
    if (run.end == anatomy.all().end) access(op, buffers_[b].output, Role::output, Use::write);
    access(op, buffers_[b].saved, Role::saved, Use::read);
    access(op, buffers_[b].recomputed, Role::recomputed, run.first == whole.first ? Use::write : Use::update);
    const bool begins = run.first == whole.first, ends = run.end == whole.end;
    access_ports(op, buffers_[b].again, Role::port, begins ? SIZE_MAX : run.first - 1u, ends ? SIZE_MAX : run.end - 1u);
    access(op, buffers_[b].forward_workspace, Role::workspace, Use::write);
    segment.ops.push_back(std::move(op));
    if (run.end < whole.end) exchange(segment, b, microbatch, run.end - 1u, buffers_[b].again, false);
  }
}

void Emitter::make_again(DraftSegment& segment, size_t b, Index microbatch, size_t port) {
  const models::Parts part = blocks_[b]->anatomy().alone(port);
  Op op = make(OpKind::recompute, compute_lane, run_name("recompute", b, part, {}), b, microbatch);
  op.parts = part;
  read_positions(op);
  if (part.first == 0) access(op, input_of(b), Role::input, Use::read);
  access(op, buffers_[b].saved, Role::saved, Use::read);
  access_ports(op, buffers_[b].again, Role::port, SIZE_MAX, part.first);
  segment.ops.push_back(std::move(op));
  exchange(segment, b, microbatch, part.first, buffers_[b].again, false);
}

void Emitter::backward(DraftSegment& segment, size_t b, Index microbatch) {
  if (layout_.model->sends(b)) gather_received(segment, b, buffers_[b].d_output, Role::d_output, microbatch);
  if (plans_[b].rerun().count() > 0) recompute(segment, b, microbatch);
  for (const BackwardRun& run : plans_[b].backward()) {
    if (plans_[b].weights_apart() && run.half == models::Half::weight) continue;
    // The ports that gradients of weights read come together beside the input half.
    if (run.half != models::Half::weight) {
      for (size_t port : plans_[b].made_again(run.parts)) make_again(segment, b, microbatch, port);
    }
    backward_run(segment, b, microbatch, run);
    if (run.half != models::Half::weight && run.parts.first > 0) {
      exchange(segment, b, microbatch, run.parts.first - 1u, buffers_[b].d_ports, true);
    }
  }
}

void Emitter::weight_gradient(DraftSegment& segment, size_t b, Index microbatch) {
  if (plans_[b].weights_apart()) backward_run(segment, b, microbatch, plans_[b].backward().back());
}

void Emitter::backward_run(DraftSegment& segment, size_t b, Index microbatch, const BackwardRun& backward) {
  const models::Anatomy& anatomy = blocks_[b]->anatomy();
  const models::Parts run = backward.parts;
  const bool inputs = backward.half != models::Half::weight, weights = backward.half != models::Half::input;
  Op op = make(OpKind::backward, compute_lane, run_name("backward", b, run, anatomy.all()), b, microbatch);
  if (inputs != weights) op.name += inputs ? ": inputs" : ": weights";
  op.parts = run, op.half = backward.half;
  const bool makes_gradient = inputs && run.first <= anatomy.input_part;  // of the input
  if (layout_.model->embeds(b) && makes_gradient) access(op, tokens_, Role::tokens, Use::read);
  if (inputs) read_positions(op);
  if (blocks_[b]->backward_reads_input() && makes_gradient) access(op, input_of(b), Role::input, Use::read);
  if (makes_gradient) {
    access(op, d_input_of(b), Role::d_input, run.has(anatomy.input_part) ? Use::write : Use::update);
  }
  if (layout_.model->predicts(b)) {
    if (inputs) access(op, targets_, Role::targets, Use::read);
    if (inputs && run.has(anatomy.loss_part(true))) access(op, state_.control, Role::control, Use::update);
  } else if (run.end > anatomy.input_part && inputs) {
    access(op, buffers_[b].d_output, Role::d_output, Use::read);
  }
  if (const auto routes = blocks_[b]->routing_part(); inputs && routes && run.has(*routes)) {
    access(op, state_.control, Role::control, Use::update);
    if (blocks_[b]->experts() > 0) access(op, state_.loads, Role::loads, Use::update);
  }
  if (inputs) access(op, buffers_[b].saved, Role::saved, Use::read);
  if (inputs) access(op, buffers_[b].recomputed, Role::recomputed, Use::read);
  if (inputs != weights) {
    const bool begins = run.end == anatomy.all().end || !plans_[b].weights_apart();
    access(op, buffers_[b].held, Role::held, !inputs ? Use::read : begins ? Use::write : Use::update);
  }
  for (size_t p = 0; p < buffers_[b].ports.size(); ++p) {
    if (!weights || !plans_[b].reads_back(anatomy.ports[p], run)) continue;
    access(op, buffers_[b].again[p], Role::port, Use::read);
    op.accesses.back().port = static_cast<uint8_t>(p);
  }
  if (inputs) {
    access_ports(op, buffers_[b].d_ports, Role::d_port, run.end - 1u, run.first - 1u);
  } else {
    read_brought(op, b, run);
  }
  access(op, buffers_[b].backward_workspace, Role::workspace, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::read_brought(Op& op, size_t b, models::Parts run) const {
  const std::vector<models::Port>& ports = blocks_[b]->anatomy().ports;
  for (size_t p = 0; p < ports.size(); ++p) {
    if (buffers_[b].d_ports[p] == no_buffer || !run.has(ports[p].part)) continue;
    if (!ports[p].seam.of_product()) continue;
    access(op, buffers_[b].d_ports[p], Role::d_port, Use::read);
    op.accesses.back().port = static_cast<uint8_t>(p);
  }
}

void Emitter::access(Op& op, BufferId buffer, Role role, Use use) const {
  if (buffer == no_buffer) return;
  const Buffer& of = set_.buffers[buffer];
  Index slot = op.microbatch;
  if (of.slot_table.empty()) {
    slot = slot.modulo(of.slots);
  } else {
    slot.first += chunk_[op.block] * layout_.microbatches;
  }
  op.accesses.push_back({buffer, role, use, slot});
}

uint64_t Emitter::width_bytes(size_t b) const {
  return layout_.stream_bytes(blocks_[b]->output_width(), shape_);
}

BufferId Emitter::add(const std::string& name, Category category, uint64_t bytes, uint32_t slots, Life life) {
  if (bytes == 0) return no_buffer;
  return set_.add({phase_ + name, category, life, bytes, slots, 0});
}

Op Emitter::make(OpKind kind, uint8_t lane, std::string name, size_t block, Index microbatch) const {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.name = std::move(name);
  op.block = static_cast<uint32_t>(block);
  op.parts = blocks_[block]->anatomy().all();
  op.microbatch = microbatch;
  if (kind != OpKind::load_batch) op.units = layout_.units.blocks[block];
  return op;
}

}  // namespace zrt::runtime
