#include <algorithm>
#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/control_ops.h"
#include "runtime/ops/spec.h"
#include "runtime/program/expert_loads.h"

namespace zrt::runtime {
namespace {

// Bytes between parameters hold no gradient; the norm and the update read them, so they must be zero.
void clear_padding(const optimizer::Unit& unit, std::byte* grads, size_t element) {
  for (size_t i = 0; i < unit.params.size(); ++i) {
    const int64_t begin = unit.params[i].offset + unit.params[i].param->elements();
    const int64_t end = i + 1 < unit.params.size() ? unit.params[i + 1].offset : unit.elements;
    core::fill_bytes(grads + static_cast<size_t>(begin) * element, 0, static_cast<size_t>(end - begin) * element);
  }
}

void run_block(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const models::Block& block = *layout.model->blocks[call.op.block];
  const BlockPlan& plan = call.rank.blocks[call.op.block];
  const bool backward = call.op.kind == OpKind::backward;
  const bool head = layout.model->predicts(call.op.block);
  auto* control = call.as<Control>(Role::control);

  models::Call c;
  c.shape = layout.shape(*spec(call.op.kind).block, call.op.block);
  c.tokens = call.as<int32_t>(Role::tokens);
  c.targets = call.as<int32_t>(Role::targets);
  c.positions = call.as<int32_t>(Role::positions);
  c.input = call.at(Role::input);
  c.output = call.at(Role::output);
  c.d_output = call.at(Role::d_output);
  c.d_input = call.at(Role::d_input);
  c.parts = call.op.parts;
  std::vector<std::byte*> saved;
  if (c.shape.mode == models::Mode::train || call.find(Role::saved)) {
    const bool trains = c.shape.mode == models::Mode::train;
    const models::Parts all = block.anatomy().all(), left_out = trains ? plan.left_out() : models::Parts{};
    saved.resize(all.count());
    models::lay_out_saved(block, c.shape, all, left_out, call.at(Role::saved), saved);
    models::lay_out_saved(block, c.shape, left_out, {}, call.at(Role::recomputed), saved);
    c.again = call.op.kind == OpKind::recompute && !left_out.has(c.parts.first);
  }
  c.saved = saved;
  c.half = call.op.half;
  std::vector<std::byte*> held;
  if (std::byte* base = call.at(Role::held)) {
    held.resize(block.anatomy().parts.size());
    models::lay_out_held(block, c.shape, plan.held_parts(c.parts), base, held);
  }
  c.held = held;
  std::vector<void*> ports(block.anatomy().ports.size()), d_ports(ports.size());
  for (const Access& access : call.op.accesses) {
    if (access.role == Role::port) ports[access.port] = call.address(access);
    if (access.role == Role::d_port) d_ports[access.port] = call.address(access);
  }
  c.ports = ports, c.d_ports = d_ports;
  c.tensor_rank = call.rank.tensor;
  c.workspace = call.at(Role::workspace);
  c.cache = call.at(Role::cache);

  // Parameters in the block's order, found in the unit buffers.
  const auto& places = layout.units.params[call.op.block];
  std::vector<const void*> weights(places.size());
  std::vector<void*> grads(backward ? places.size() : 0);
  std::vector<uint8_t> accumulate(grads.size());
  const size_t grad_size = core::dtype_size(layout.local_grad);
  for (size_t u = 0; u < call.op.units.size(); ++u) {
    const std::byte* weight = call.at(Role::weight, u);  // null for the weight half of a backward
    std::byte* grad = call.at(Role::local_grad, u);      // null but for backwards of trained units, of all but one half
    for (size_t p = 0; p < places.size(); ++p) {
      if (places[p].unit != call.op.units[u]) continue;
      if (weight) weights[p] = weight + static_cast<size_t>(places[p].offset) * core::dtype_size(layout.compute);
      if (!grad) continue;
      grads[p] = grad + static_cast<size_t>(places[p].offset) * grad_size;
      accumulate[p] = call.op.accumulate[u];
    }
    const bool defines = grad && call.find(Role::local_grad, u)->use == Use::write;
    if (defines) clear_padding(call.unit(u), grad, grad_size);
  }
  c.weights = weights;
  c.grads = grads;
  c.accumulate = accumulate;

  const uint32_t microbatch = call.op.microbatch.at(call.iteration);
  c.first_sample = (static_cast<uint64_t>(microbatch) * static_cast<uint64_t>(layout.mesh.data()) +
                    static_cast<uint64_t>(call.rank.data)) *
                   static_cast<uint64_t>(c.shape.B);
  const StepInputs& inputs = call.rank.control->inputs;
  c.rng = {inputs.seed, inputs.step, 0};
  c.position = inputs.position;
  const double loss_scale = call.rank.control->persistent.loss_scale.scale / static_cast<double>(layout.targets());
  c.loss_scale = static_cast<float>(loss_scale);
  c.router_scale = static_cast<float>(loss_scale / share_factor(inputs, decide_rules(call.rank)));
  const bool loses = head && control && call.op.kind != OpKind::decode;
  c.loss = loses ? &control->call_loss : nullptr;
  c.router = control && block.routing_part() ? &control->router : nullptr;
  if (auto* loads = call.as<models::ExpertLoad>(Role::loads)) {
    c.expert_loads = loads + experts_before(*layout.model, call.op.block);
  }

  if (call.op.kind == OpKind::decode) {
    block.decode(c);
  } else if (backward) {
    block.backward(c);
  } else {
    block.forward(c);
  }
  if (c.loss) count_loss(control, c.targets, c.shape.rows());
}

// Returns the share that the products of a run of parts are of those of the whole block.
double share_of_block(const CostCall& call, const models::Block& block, const models::Shape& shape) {
  const bool forward = call.op.kind != OpKind::backward && call.op.kind != OpKind::recompute;
  const models::Parts whole = forward ? models::forward_parts(block, shape.mode) : block.anatomy().all();
  if (call.op.parts == whole && call.op.half == models::Half::both) return 1;
  if (call.op.kind == OpKind::recompute && block.forward_flops(shape) == 0) return 1;
  return share_of_pass(block, shape, call.op.parts, call.op.half);
}

// Returns how much of what a block multiplies by its parameters is of frozen ones: no product makes their gradients.
double frozen_share(const CostCall& call) {
  const auto& units = call.layout.units;
  double all = 0, frozen = 0;
  for (uint32_t u : call.op.units) {
    double count = 0;
    for (const optimizer::UnitParam& each : units.units[u].params) {
      count += each.param->share * static_cast<double>(each.param->elements() * each.param->places());
    }
    all += count, frozen += units.units[u].trained ? 0 : count;
  }
  return frozen / std::max(all, 1.0);
}

double block_seconds(const CostCall& call) {
  const models::Block& block = *call.layout.model->blocks[call.op.block];
  const models::Shape shape = call.layout.shape(*spec(call.op.kind).block, call.op.block);
  const bool last = call.layout.model->predicts(call.op.block);
  const Cluster& cluster = call.cluster;
  const BlockCost cost = block_cost(block, shape, last, cluster);
  double share = share_of_block(call, block, shape);
  const BlockPlan plan(call.layout, call.op.block);
  if (call.op.kind == OpKind::recompute && cluster.software.whole_recompute && plan.recompute() == Recompute::full) {
    share /= share_of_pass(block, shape, plan.rerun(), models::Half::both);
  }
  if (call.op.kind != OpKind::backward) return cost.forward_seconds * share;
  double passed = share;
  if (const double frozen = frozen_share(call); frozen > 0 && call.op.half != models::Half::input) {
    passed -= frozen * share_of_pass(block, shape, call.op.parts, models::Half::weight);
  }
  // Gradients of weights are written whole, by products and by passes alike; once, whatever the runs of parts.
  const double grads = call.op.parts.first == 0 ? role_bytes(call.set, call.op, Role::local_grad) : 0;
  return cost.backward_seconds * passed + grads / cluster.memory_bytes_per_second;
}

OpCost block_op_cost(const CostCall& call) {
  return {call.cluster.op_seconds + block_seconds(call), Resource::compute};
}

OpSpec block_row(OpKind kind, std::string_view name, std::string_view phase, models::Mode mode,
                 std::vector<Operand> operands) {
  for (const Operand& shared : {Operand{Role::weight, Count::each_unit, may_read},
                                {Role::input, Count::optional, may_read},
                                {Role::port, Count::any, may_read | may_write | may_update},
                                {Role::d_port, Count::any, may_read | may_write | may_update},
                                {Role::workspace, Count::optional, may_write}}) {
    operands.push_back(shared);
  }
  return {.kind = kind,
          .name = name,
          .phases = {phase},
          .operands = std::move(operands),
          .run = run_block,
          .cost = block_op_cost,
          .block = mode,
          .of_microbatch = true,
          .works = true};
}

}  // namespace

std::vector<OpSpec> block_ops() {
  using models::Mode;
  const auto may = [](Role role, int uses) { return Operand{role, Count::optional, static_cast<uint8_t>(uses)}; };
  std::vector<OpSpec> rows{
      block_row(OpKind::forward, "forward", "step", Mode::train,
                {may(Role::tokens, may_read), may(Role::positions, may_read), may(Role::output, may_write),
                 may(Role::saved, may_write | may_update), may(Role::recomputed, may_write | may_update)}),
      block_row(OpKind::recompute, "recompute", "step", Mode::train,
                {may(Role::positions, may_read), may(Role::output, may_write), may(Role::saved, may_read),
                 may(Role::recomputed, may_write | may_update)}),
      block_row(OpKind::backward, "backward", "step", Mode::train,
                {may(Role::tokens, may_read),
                 may(Role::targets, may_read),
                 may(Role::positions, may_read),
                 may(Role::d_input, may_write | may_update),
                 may(Role::d_output, may_read),
                 may(Role::saved, may_read),
                 may(Role::recomputed, may_read),
                 may(Role::held, may_read | may_write | may_update),
                 may(Role::control, may_update),
                 may(Role::loads, may_update),
                 {Role::local_grad, Count::each_unit, may_write | may_update}}),
      block_row(
          OpKind::evaluate, "evaluate", "eval", Mode::eval,
          {may(Role::tokens, may_read), may(Role::targets, may_read), may(Role::positions, may_read),
           may(Role::output, may_write), may(Role::saved, may_write | may_update), may(Role::control, may_update)}),
      block_row(OpKind::decode, "decode", "decode", Mode::decode,
                {may(Role::tokens, may_read), may(Role::output, may_write), may(Role::saved, may_write | may_update),
                 may(Role::cache, may_update), may(Role::control, may_update)}),
  };
  rows[2].parameters = takes_loss_scale;
  rows[4].parameters = takes_position;
  return rows;
}

}  // namespace zrt::runtime
