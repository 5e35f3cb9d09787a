#include <vector>

#include "runtime/engine/control_ops.h"
#include "runtime/engine/ops.h"

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

}  // namespace

void run_block(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const models::Block& block = *layout.model->blocks[call.op.block];
  const bool backward = call.op.kind == OpKind::backward;
  const bool head = call.op.block + 1 == layout.model->blocks.size();
  auto* control = call.as<Control>(Role::control);

  models::Call c;
  c.shape = layout.shape(call.op.kind == OpKind::decode     ? models::Mode::decode
                         : call.op.kind == OpKind::evaluate ? models::Mode::eval
                                                            : models::Mode::train);
  c.tokens = call.as<int32_t>(Role::tokens);
  c.targets = call.as<int32_t>(Role::targets);
  c.input = call.at(Role::input);
  c.output = call.at(Role::output);
  c.d_output = call.at(Role::d_output);
  c.d_input = call.at(Role::d_input);
  c.saved = call.at(Role::saved);
  c.remade = call.at(Role::remade);
  if (c.remade) c.shape.keep = models::Keep::selective;
  c.workspace = call.at(Role::workspace);
  c.cache = call.at(Role::cache);

  // Parameters in the block's order, found in the unit buffers.
  const auto& places = layout.units.params[call.op.block];
  std::vector<const void*> weights(places.size());
  std::vector<void*> grads(backward ? places.size() : 0);
  std::vector<uint8_t> accumulate(grads.size());
  const size_t grad_size = core::dtype_size(layout.local_grad);
  for (size_t u = 0; u < call.op.units.size(); ++u) {
    const std::byte* weight = call.at(Role::weight, u);
    std::byte* grad = backward ? call.at(Role::local_grad, u) : nullptr;
    for (size_t p = 0; p < places.size(); ++p) {
      if (places[p].unit != call.op.units[u]) continue;
      weights[p] = weight + static_cast<size_t>(places[p].offset) * core::dtype_size(layout.compute);
      if (!backward) continue;
      grads[p] = grad + static_cast<size_t>(places[p].offset) * grad_size;
      accumulate[p] = call.op.accumulate[u];
    }
    if (backward && call.op.accumulate[u] == 0) clear_padding(call.unit(u), grad, grad_size);
  }
  c.weights = weights;
  c.grads = grads;
  c.accumulate = accumulate;

  const uint32_t microbatch = call.op.microbatch.at(call.iteration);
  c.first_sample =
      (static_cast<uint64_t>(microbatch) * static_cast<uint64_t>(layout.dp) + static_cast<uint64_t>(call.rank.number)) *
      static_cast<uint64_t>(c.shape.B);
  const StepInputs& inputs = call.rank.control->inputs;
  c.rng = {inputs.seed, inputs.step, 0};
  c.position = inputs.position;
  const double tokens = static_cast<double>(c.shape.rows()) * layout.dp * layout.microbatches;
  c.loss_scale = static_cast<float>(call.rank.control->persistent.loss_scale.scale / tokens);
  c.loss = head && control && call.op.kind != OpKind::decode ? &control->call_loss : nullptr;

  if (call.op.kind == OpKind::decode) {
    block.decode(c);
  } else if (call.op.kind == OpKind::recompute) {
    block.recompute(c);
  } else if (backward) {
    block.backward(c);
  } else {
    block.forward(c);
  }
  if (c.loss) count_loss(control, c.targets, c.shape.rows());
}

}  // namespace zrt::runtime
