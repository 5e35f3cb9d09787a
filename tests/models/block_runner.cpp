#include "tests/models/block_runner.h"

#include <limits>
#include <utility>

namespace zrt::test {

using models::Block;
using models::Call;
using models::Mode;
using models::Shape;

BlockRunner::BlockRunner(const models::Model& model, const Shape& shape) : model_(model), shape_(shape) {
  for (const auto& block : model.blocks) {
    for (const models::Param& param : block->params()) {
      if (weights_.contains(param.name)) continue;
      elements_[param.name] = param.elements();
      weights_[param.name] = GuardedBuffer(param.elements() * core::dtype_size(shape.type));
      grads_[param.name] = GuardedBuffer(param.elements() * core::dtype_size(shape.grad_type));
    }
    loads_.emplace_back(static_cast<size_t>(block->experts()));
    const bool head = block == model.blocks.back();
    outputs_.emplace_back(head ? 0 : shape.rows() * block->output_width() * core::dtype_size(shape.type));
    std::vector<GuardedBuffer>& saved = saved_.emplace_back();
    for (size_t part = 0; part < block->anatomy().parts.size(); ++part)
      saved.emplace_back(block->saved_bytes(shape, part));
  }
}

void BlockRunner::load(const Tensors& weights) {
  for (auto& [name, buffer] : weights_) {
    if (weights.at(name).size() != static_cast<size_t>(elements_.at(name)))
      throw std::runtime_error("the block and the reference disagree on the size of " + name);
    buffer.store(shape_.type, weights.at(name));
  }
}

void BlockRunner::forget_grads() {
  written_.clear();
  for (auto& [name, buffer] : grads_) buffer.poison();
}

Call BlockRunner::make_call(size_t block, const Shape& shape, const Batch& batch, const RunOptions& options) {
  weight_pointers_.clear();
  for (const models::Param& param : model_.blocks[block]->params())
    weight_pointers_.push_back(weights_.at(param.name).data());
  Call call;
  call.shape = shape;
  call.weights = weight_pointers_;
  if (block == 0) {
    tokens_ = visible(batch.tokens);
    call.tokens = tokens_.data();
  } else {
    call.input = outputs_[block - 1].data();
  }
  if (!batch.positions.empty()) {
    positions_ = visible(batch.positions);
    call.positions = positions_.data();
  }
  if (block + 1 == model_.blocks.size()) {
    targets_ = visible(batch.targets);
    call.targets = targets_.data();
    call.loss = loss_.data();
  }
  if (model_.blocks[block]->routing_part()) call.router = router_.data(), call.expert_loads = loads_[block].data();
  call.loss_scale = options.loss_scale != 0 ? options.loss_scale : 1 / static_cast<float>(shape.rows());
  call.router_scale = call.loss_scale;
  call.rng = {options.seed, options.step, 0};
  call.first_sample = options.first_sample;
  saved_pointers_.clear();
  if (shape.mode == Mode::train) {
    for (const GuardedBuffer& part : saved_[block]) saved_pointers_.push_back(part.data());
  }
  call.saved = saved_pointers_;
  return call;
}

std::vector<models::Parts> BlockRunner::runs(size_t b, uint32_t seams) const {
  const models::Anatomy& anatomy = model_.blocks[b]->anatomy();
  std::vector<models::Parts> result{anatomy.all()};
  for (size_t port = 0; port < anatomy.ports.size(); ++port) {
    if (!layer(b) || (seams >> port & 1) == 0) continue;
    result.back().end = static_cast<uint8_t>(anatomy.ports[port].part + 1);
    result.push_back({result.back().end, anatomy.all().end});
  }
  return result;
}

std::vector<GuardedBuffer> BlockRunner::make_ports(size_t b, const Shape& shape, uint32_t seams) const {
  std::vector<GuardedBuffer> buffers;
  const models::Anatomy& anatomy = model_.blocks[b]->anatomy();
  for (size_t port = 0; port < anatomy.ports.size(); ++port) {
    const bool cut = layer(b) && (seams >> port & 1) != 0;
    buffers.emplace_back(cut ? shape.rows() * anatomy.ports[port].width * core::dtype_size(shape.type) : 0);
  }
  return buffers;
}

namespace {

// Returns pointers to the ports at seams; the rest is inside a run.
std::vector<void*> pointers_to(std::vector<GuardedBuffer>& buffers) {
  std::vector<void*> pointers;
  for (GuardedBuffer& buffer : buffers) pointers.push_back(buffer.bytes() > 0 ? buffer.data() : nullptr);
  return pointers;
}

}  // namespace

void BlockRunner::forward(size_t b, const Shape& shape, const Batch& batch, const RunOptions& options) {
  const Block& block = *model_.blocks[b];
  Call call = make_call(b, shape, batch, options);
  outputs_[b].poison();
  for (GuardedBuffer& part : saved_[b]) part.poison();
  call.output = outputs_[b].data();
  std::vector<GuardedBuffer> ports = make_ports(b, shape, options.forward_seams);
  const std::vector<void*> port_pointers = pointers_to(ports);
  call.ports = port_pointers;
  for (const models::Parts& parts : runs(b, options.forward_seams)) {
    workspace_ = GuardedBuffer(block.forward_workspace_bytes(shape));
    call.parts = parts;
    call.workspace = workspace_.data();
    block.forward(call);
    check(b, "forward");
  }
  for (const GuardedBuffer& port : ports) port.check("forward of " + block.name() + ": a port");
}

// Makes a port that backward would make again inside its call.
void BlockRunner::remake(size_t b, size_t port, const Call& backward, void* to) {
  const Block& block = *model_.blocks[b];
  std::vector<void*> ports(port + 1, nullptr);
  ports[port] = to;
  GuardedBuffer workspace(block.forward_workspace_bytes(shape_));
  Call call = backward;
  const uint8_t part = block.anatomy().ports[port].part;
  call.parts = {part, static_cast<uint8_t>(part + 1)};
  call.again = true;
  call.ports = ports;
  call.workspace = workspace.data();
  block.forward(call);
  workspace.check("making a port of " + block.name() + " again: the workspace");
}

void BlockRunner::backward(size_t b, const Batch& batch, const RunOptions& options) {
  const Block& block = *model_.blocks[b];
  Call call = make_call(b, shape_, batch, options);
  grad_pointers_.clear();
  accumulate_.clear();
  for (const models::Param& param : block.params()) {
    grad_pointers_.push_back(model_.trains(param) ? grads_.at(param.name).data() : nullptr);
    accumulate_.push_back(std::exchange(written_[param.name], true));
  }
  if (b > 0) {
    d_input_ = GuardedBuffer(outputs_[b - 1].bytes());
    if (!block.backward_reads_input()) outputs_[b - 1].poison();
  }
  call.d_output = b + 1 < model_.blocks.size() ? d_output_.data() : nullptr;
  call.d_input = b > 0 ? d_input_.data() : nullptr;
  call.grads = grad_pointers_;
  call.accumulate = accumulate_;
  std::vector<GuardedBuffer> d_ports = make_ports(b, shape_, options.backward_seams);
  std::vector<GuardedBuffer> ports = make_ports(b, shape_, options.ports);
  const std::vector<void*> port_pointers = pointers_to(ports), d_port_pointers = pointers_to(d_ports);
  for (size_t port = 0; port < ports.size(); ++port) {
    if (port_pointers[port] != nullptr) remake(b, port, call, port_pointers[port]);
  }
  call.ports = port_pointers, call.d_ports = d_port_pointers;
  std::vector<models::Parts> all = runs(b, options.backward_seams);
  for (size_t run = all.size(); run-- > 0;) {
    workspace_ = GuardedBuffer(block.backward_workspace_bytes(shape_, models::all_parts, models::Half::both));
    call.parts = all[run];
    call.workspace = workspace_.data();
    block.backward(call);
    check(b, "backward");
  }
  for (const GuardedBuffer& port : d_ports) port.check("backward of " + block.name() + ": the gradient of a port");
  std::swap(d_output_, d_input_);
}

double BlockRunner::train(const Batch& batch, const RunOptions& options) {
  forget_loss();
  for (size_t b = 0; b < model_.blocks.size(); ++b) forward(b, shape_, batch, options);
  for (size_t b = model_.blocks.size(); b-- > 0;) {
    if (options.recompute) forward(b, shape_, batch, options);
    backward(b, batch, options);
  }
  return loss();
}

double BlockRunner::evaluate(const Batch& batch) {
  forget_loss();
  Shape shape = shape_;
  shape.mode = Mode::eval;
  for (size_t b = 0; b < model_.blocks.size(); ++b) forward(b, shape, batch, {});
  return loss();
}

std::vector<double> BlockRunner::decode(const Batch& batch) {
  Shape shape = shape_;
  shape.mode = Mode::decode;
  const size_t last = model_.blocks.size() - 1;
  std::vector<GuardedBuffer> caches, outputs;
  for (const auto& block : model_.blocks) {
    caches.emplace_back(block->cache_bytes(shape));
    outputs.emplace_back(block == model_.blocks.back()
                             ? batch.B * model_.vocab * sizeof(float)
                             : shape.rows() * block->output_width() * core::dtype_size(shape.type));
  }
  std::vector<double> logits(batch.B * batch.T * model_.vocab);
  for (int64_t t = 0; t < batch.T; ++t) {
    Batch column{batch.B, 1, {}, {}};
    for (int64_t b = 0; b < batch.B; ++b) column.tokens.push_back(batch.tokens[b * batch.T + t]);
    for (size_t b = 0; b <= last; ++b) {
      Call call = make_call(b, shape, column, {});
      call.targets = nullptr;
      call.loss = nullptr;
      call.input = b > 0 ? outputs[b - 1].data() : nullptr;
      outputs[b].poison();
      call.output = outputs[b].data();
      call.cache = caches[b].data();
      call.position = t;
      workspace_ = GuardedBuffer(model_.blocks[b]->forward_workspace_bytes(shape));
      call.workspace = workspace_.data();
      model_.blocks[b]->decode(call);
      check(b, "decode");
      caches[b].check("decode of " + model_.blocks[b]->name() + ": the cache");
      outputs[b].check("decode of " + model_.blocks[b]->name() + ": the output");
    }
    const std::vector<double> rows = outputs[last].load(core::DType::f32, batch.B * model_.vocab);
    for (int64_t b = 0; b < batch.B; ++b)
      for (int64_t v = 0; v < model_.vocab; ++v)
        logits[(b * batch.T + t) * model_.vocab + v] = rows[b * model_.vocab + v];
  }
  return logits;
}

void BlockRunner::check(size_t b, const char* pass) const {
  const std::string what = std::string(pass) + " of " + model_.blocks[b]->name() + ": ";
  workspace_.check(what + "the workspace");
  outputs_[b].check(what + "the output");
  for (const GuardedBuffer& part : saved_[b]) part.check(what + "what it saves");
  d_input_.check(what + "the gradient of the input");
  for (const models::Param& param : model_.blocks[b]->params()) {
    weights_.at(param.name).check(what + param.name);
    grads_.at(param.name).check(what + "the gradient of " + param.name);
  }
}

void BlockRunner::forget_loss() {
  settle();
  loss_[0] = std::numeric_limits<double>::quiet_NaN();
}

double BlockRunner::loss() const {
  settle();
  return loss_[0];
}

Tensors BlockRunner::grads() const {
  Tensors tensors;
  for (const auto& [name, buffer] : grads_) tensors[name] = buffer.load(shape_.grad_type, elements_.at(name));
  return tensors;
}

}  // namespace zrt::test
