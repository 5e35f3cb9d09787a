#include "core/device.h"
#include "models/common/layer.h"

namespace zrt::models {

void Layer::add_stream(const Call& call, const void* d_stream, void* d) const {
  add_residual(call.shape.type, d, d_stream, {}, 0, d, own_elements(call));
}

void Layer::backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                         void* d_normed) const {
  const Mlp::Backward mlp{kept.routed, kept.mlp, space.route, space.hidden, space.projection, space.scratch};
  const auto normed = [&] { return normed_again(call, normed_2, kept, space.second_normed); };
  if (call.parts.has(combine)) mlp_->backward_combine(call, mlp, d_projected);
  if (call.parts.has(projection)) {
    mlp_->backward_projection(call, mlp, d_projected);
    mlp_->backward_hidden(call, mlp, exchanges_ ? nullptr : normed(), d_normed);
  }
  if (call.parts.has(route)) mlp_->backward_route(call, mlp, normed(), d_normed);
}

void Layer::backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_attended,
                               void* d_normed) const {
  attention_.backward_heads(call, kept.attention, space.attention, dropped(call, DropoutSite::attention), d_attended);
  attention_.backward_strips(call, space.attention, normed_again(call, normed_1, kept, space.first_normed), d_normed);
}

void Layer::backward_weights(const Call& call, const BackwardSpace& space) const {
  const Parts parts = call.parts;
  if (parts.has(norm_1)) norm_.write_held(call, first_norm_weight_, held_of(call, norm_1));
  if (parts.has(norm_2)) norm_.write_held(call, second_norm_weight_, held_of(call, norm_2));
  if (parts.has(norm_2) && norms_behind_) norm_.write_held(call, norms_behind_->attention, space.held_attention_norm);
  if (parts.has(output) && norms_behind_) norm_.write_held(call, norms_behind_->mlp, space.held_mlp_norm);
  backward_mlp(call, {}, space, call.d_port_or(projected, space.held_projected), nullptr);
  if (parts.has(attention)) backward_attention(call, {}, space, call.d_port_or(attended, space.held_attended), nullptr);
}

void Layer::backward_inputs(const Call& call, const Kept& kept, const BackwardSpace& space) const {
  const Parts parts = call.parts;
  const Rows own = own_rows(call);
  const void *d_projected = call.d_port(projected), *d_attended = call.d_port(attended);
  void *d_normed_1 = call.d_port_or(normed_1, space.d_normed), *d_normed_2 = call.d_port_or(normed_2, space.d_normed);
  // A port takes the gradient of what a part has handed on, or else the layer's own buffer does.
  const auto place = [&](size_t port, void* held) -> void* {
    return call.d_port(port) != nullptr ? own_place(call, call.d_port(port)) : held;
  };

  if (parts.has(output) && norms_behind_) {
    void* const to = place(projected, space.held_projected);
    d_projected = norm_behind_backward(call, norms_behind_->mlp, kept.from_mlp, call.d_output, kept.mlp_norm,
                                       to != nullptr ? to : space.of_mlp, space, space.held_mlp_norm);
  } else if (parts.has(output)) {
    const Dropout after_mlp = dropped(call, DropoutSite::mlp_output);
    d_projected = undrop(call, after_mlp, call.d_output, place(projected, space.held_projected), space.of_mlp);
  }
  backward_mlp(call, kept, space, d_projected, d_normed_2);
  // From here on d_input holds the gradient of the residual stream between attention and MLP.
  if (parts.has(norm_2)) {
    void* d_normed = own_place(call, d_normed_2);
    if (post_norm_) add_stream(call, call.d_output, d_normed);
    norm_.backward(call, second_norm_weight_, own.count, kept.residual, d_normed, kept.second_norm,
                   post_norm_ ? nullptr : call.d_output, call.d_input, space.scratch, held_of(call, norm_2));
    void* const to = place(attended, space.held_attended);
    if (norms_behind_) {
      d_attended =
          norm_behind_backward(call, norms_behind_->attention, kept.from_attention, call.d_input, kept.attention_norm,
                               to != nullptr ? to : space.of_attention, space, space.held_attention_norm);
    } else {
      const Dropout after_attention = dropped(call, DropoutSite::attention_output);
      d_attended = undrop(call, after_attention, call.d_input, to, space.of_attention);
    }
  }
  if (parts.has(attention)) backward_attention(call, kept, space, d_attended, d_normed_1);
  if (parts.has(norm_1)) {
    void* d_normed = own_place(call, d_normed_1);
    if (post_norm_) add_stream(call, call.d_input, d_normed);
    if (first_norm_site_ && sizes_.dropout > 0) {
      apply_dropout(call.shape.type, d_normed, dropout(call, *first_norm_site_), first_element(call), d_normed,
                    own_elements(call));
    }
    norm_.backward(call, first_norm_weight_, own.count, call.input, d_normed, kept.first_norm,
                   post_norm_ ? nullptr : call.d_input, call.d_input, space.scratch, held_of(call, norm_1));
  }
}

const void* Layer::norm_behind_backward(const Call& call, size_t weight, const void* kept, const void* dy,
                                        const Norm::Statistics& statistics, void* to, const BackwardSpace& space,
                                        float* held) const {
  norm_.backward(call, weight, own_rows(call).count, kept, dy, statistics, nullptr, to, space.scratch, held);
  return to;
}

void Layer::backward(const Call& call) const {
  check_shape(call.shape);
  BumpAllocator workspace(call.workspace);
  BackwardSpace space = backward_space(workspace, call.shape, call.parts, call.half);
  for (size_t part = 0; part < anatomy_.parts.size() && call.half != Half::both; ++part) {
    if (!call.parts.has(part)) continue;
    BumpAllocator held(call.held_of(part));
    hold(space, part, held, call.shape);
  }
  if (call.half == Half::weight) return backward_weights(call, space);
  backward_inputs(call, kept_in(call), space);
}

const void* Layer::undrop(const Call& call, const Dropout& dropout, const void* d, void* to, void* buffer) const {
  const DType type = call.shape.type;
  const int64_t n = own_elements(call);
  if (dropout.probability == 0) {
    if (to == nullptr) return d;
    core::copy_bytes(to, d, static_cast<size_t>(n) * core::dtype_size(type));
    return to;
  }
  void* dropped = to == nullptr ? buffer : to;
  apply_dropout(type, d, dropout, first_element(call), dropped, n);
  return dropped;
}

const void* Layer::normed_again(const Call& call, size_t port, const Kept& kept, void* space) const {
  if (call.port(port) != nullptr || call.half == Half::weight || shares_rows()) return call.port_or(port, space);
  if (void* const there = port == normed_1 ? kept.first_normed : kept.second_normed; there != nullptr) {
    if (call.half == Half::both) return there;
    core::copy_bytes(space, there, static_cast<uint64_t>(own_rows(call).count) * row_bytes(call.shape));
  } else if (port == normed_1) {
    first_norm(call, space, {});
  } else {
    norm_.forward(call, second_norm_weight_, own_rows(call).count, kept.residual, space, {});
  }
  return space;
}

}  // namespace zrt::models
