#include "models/common/layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::models {

Layer::Layer(LayerForm form)
    : TransformerBlock(form.sizes, std::move(form.name)),
      first_norm_weight_(form.first_norm_weight),
      second_norm_weight_(form.second_norm_weight),
      norm_(form.norm),
      attention_(std::move(form.attention)),
      mlp_(std::move(form.mlp)),
      exchanges_(!mlp_->ports().empty()),
      route(exchanges_ ? norm_2 + 1 : no_part),
      hidden(norm_2 + (exchanges_ ? 2 : 1)),
      projection(hidden + 1),
      combine(exchanges_ ? projection + 1 : no_part),
      output(projection + (exchanges_ ? 2 : 1)),
      projected(first_mlp_port + mlp_->ports().size()),
      post_norm_(form.post_norm),
      norms_behind_(form.norms_behind),
      dropout_number_(form.dropout_number),
      first_norm_site_(form.first_norm_site),
      anatomy_(make_anatomy()) {
  params_ = std::move(form.params);
  // The gradients of adapters need weights. Beside theirs there are few others that could be made later.
  if (std::any_of(params_.begin(), params_.end(), [](const Param& param) { return param.adapter; })) {
    anatomy_.halved = 0;
  }
}

Anatomy Layer::make_anatomy() const {
  Anatomy anatomy;
  const auto number = [](size_t part) { return static_cast<uint8_t>(part); };
  anatomy.parts = {"norm_1", "attention", "norm_2"};
  if (exchanges_) anatomy.parts.emplace_back("route");
  for (const char* part : {"hidden", "projection"}) anatomy.parts.emplace_back(part);
  if (exchanges_) anatomy.parts.emplace_back("combine");
  anatomy.parts.emplace_back("output");
  const int64_t C = sizes_.hidden;
  anatomy.ports = {{"norm_1", norm_1, C, enter(sizes_.degrees)},
                   {"attention", attention, C, leave(sizes_.degrees)},
                   {"norm_2", norm_2, C, enter(sizes_.degrees)}};
  for (const MlpPort& port : mlp_->ports()) {
    anatomy.ports.push_back(
        {port.name, number(number_of(port.part)), port.width, port.seam, port.element, false, port.used_by});
  }
  anatomy.ports.push_back({"projection", number(output - 1), C, leave(sizes_.degrees)});
  anatomy.light = {norm_2, number(projection)};
  anatomy.input_part = norm_2;
  anatomy.halved = 1u << attention | 1u << hidden | 1u << projection;
  if (exchanges_) anatomy.halved |= 1u << route;
  return anatomy;
}

std::vector<GemmSpec> Layer::products(const Shape& shape) const {
  std::vector<GemmSpec> all;
  for (const Linear& linear : attention_.linears()) {
    for (const GemmSpec& spec : linear.products(shape)) all.push_back(spec);
  }
  for (const GemmSpec& spec : mlp_->products(shape)) all.push_back(spec);
  return all;
}

void Layer::keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const {
  if (part == norm_1) {
    kept.first_norm = norm_.statistics_in(layout, row_share(shape));
    if (keeps_normed(shape)) kept.first_normed = layout.take(own_bytes(shape));
  }
  if (part == attention) kept.attention = attention_.kept_in(layout, shape);
  if (part == norm_2) {
    kept.second_norm = norm_.statistics_in(layout, row_share(shape));
    kept.residual = layout.take(own_bytes(shape));
    if (keeps_normed(shape)) kept.second_normed = layout.take(own_bytes(shape));
    if (norms_behind_) {
      kept.attention_norm = norm_.statistics_in(layout, row_share(shape));
      kept.from_attention = layout.take(own_bytes(shape));
    }
  }
  if (part == output && norms_behind_) {
    kept.mlp_norm = norm_.statistics_in(layout, row_share(shape));
    kept.from_mlp = layout.take(own_bytes(shape));
  }
  if (part == route) kept.routed = layout.take<std::byte>(mlp_->routed_bytes(shape));
  if (part == hidden) kept.mlp = layout.take<std::byte>(mlp_->kept_bytes(shape));
}

Layer::Kept Layer::kept_in(const Call& call) const {
  Kept kept{};
  for (size_t part = 0; part < call.saved.size(); ++part) {
    if (call.saved[part] == nullptr) continue;
    BumpAllocator layout(call.saved[part]);
    keep(kept, part, layout, call.shape);
  }
  return kept;
}

// All that attention keeps is dead when the MLP begins, so they share their space.
Layer::Kept Layer::kept_in_workspace(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  kept.residual = layout.take(own_bytes(shape));
  if (norms_behind_) kept.from_attention = kept.from_mlp = layout.take(own_bytes(shape));
  BumpAllocator first = layout.overlay();
  kept.attention = attention_.kept_in(first, shape);
  kept.mlp = layout.take<std::byte>(mlp_->kept_bytes(shape));
  layout.cover(first);
  return kept;
}

Layer::ForwardSpace Layer::forward_space(BumpAllocator& layout, const Shape& shape, Kept& kept) const {
  uint64_t scratch = mlp_->forward_scratch(shape);
  for (const Linear& linear : attention_.linears()) scratch = std::max(scratch, linear.forward_scratch(shape));
  ForwardSpace space{};
  space.attention.scratch = space.scratch = layout.take<std::byte>(scratch);
  if (shape.mode != Mode::train) kept = kept_in_workspace(layout, shape);
  // In a post-LN layer the second norm's output is added to the MLP's.
  const bool apart = post_norm_ || mlp_->reads_late();
  const uint64_t normed_bytes = keeps_normed(shape) ? 0 : room(shape);
  if (apart) space.normed = layout.take(normed_bytes);
  BumpAllocator beside = layout.overlay(), mlp = layout.overlay();
  // Heads that are turned apart lie over the norm's output that they were made of.
  BumpAllocator normed = beside.overlay();
  if (!apart) space.normed = normed.take(normed_bytes);
  space.attention.turned = beside.take(attention_.turned_bytes(shape));
  beside.cover(normed);
  space.attention.workspace = beside.take<std::byte>(attention_.forward_workspace(shape));
  space.mlp = mlp.take<std::byte>(mlp_->forward_bytes(shape));
  BumpAllocator behind = layout.overlay();  // all the others are dead by then
  if (norms_behind_) space.behind = behind.take(own_bytes(shape));
  layout.cover(beside);
  layout.cover(mlp);
  layout.cover(behind);
  return space;
}

Layer::BackwardSpace Layer::backward_space(BumpAllocator& layout, const Shape& shape, Parts parts, Half half) const {
  const bool attends = parts.has(attention), mlps = parts.has(hidden) || parts.has(projection);
  const bool routes = parts.has(route);
  const bool whole = half == Half::both;
  uint64_t scratch = std::max(norm_.backward_scratch(row_share(shape)), attention_.backward_scratch(shape));
  scratch = std::max(scratch, mlp_->backward_scratch(shape));
  for (const Linear& linear : attention_.linears()) scratch = std::max(scratch, linear.backward_scratch(shape));
  BackwardSpace space{};
  space.attention.scratch = space.scratch = layout.take<std::byte>(scratch);
  // One after the other: a gradient behind dropout, that of the heads' output, outputs and gradients of norms.
  void* const narrow = layout.take(std::max(room(shape), bytes_of_rows(shape, attention_.attended_width())));
  space.attention.d_attended = space.d_normed = space.of_mlp = narrow;
  if (whole) space.first_normed = space.second_normed = narrow;
  BumpAllocator strips = layout.overlay(), mlp = layout.overlay();
  if (attends && whole) space.attention.d_qkv = strips.take(attention_.qkv_bytes(shape));
  if (routes && whole) space.route = mlp.take<std::byte>(mlp_->backward_bytes(shape, MlpPart::route, half));
  if (mlps && whole) space.hidden = mlp.take<std::byte>(mlp_->backward_bytes(shape, MlpPart::hidden, half));
  if (dropout_number_ || norms_behind_) {
    // Gradients of norms' outputs and of attention's output have rows of their own, behind those they are made of.
    strips.cover(mlp), mlp.cover(strips);
    BumpAllocator rows = mlp.overlay();
    if (sizes_.degrees.tensor == 1) space.d_normed = rows.take(room(shape));
    space.of_attention = rows.take(room(shape));
    layout.cover(rows);
  }
  if (mlps && whole) space.projection = mlp.take<std::byte>(mlp_->backward_bytes(shape, MlpPart::projection, half));
  if (attends && half != Half::weight) attention_.workspace_in(space.attention, strips, shape);
  layout.cover(strips);
  layout.cover(mlp);
  return space;
}

void Layer::hold(BackwardSpace& space, size_t part, BumpAllocator& layout, const Shape& shape) const {
  const auto of_mlp = [&](MlpPart of) { return layout.take<std::byte>(mlp_->backward_bytes(shape, of, Half::input)); };
  if (part == norm_1 || part == norm_2) layout.take(norm_.held_bytes());
  if (part == norm_2 && norms_behind_) space.held_attention_norm = layout.take<float>(norm_.held_bytes());
  if (part == output && norms_behind_) space.held_mlp_norm = layout.take<float>(norm_.held_bytes());
  if (part == projection) {
    space.held_projected = layout.take(room(shape)), space.projection = of_mlp(MlpPart::projection);
  }
  if (part == (exchanges_ ? route : hidden)) space.second_normed = layout.take(room(shape));
  if (part == route) space.route = of_mlp(MlpPart::route);
  if (part == hidden) space.hidden = of_mlp(MlpPart::hidden);
  if (part != attention) return;
  space.first_normed = layout.take(room(shape)), space.held_attended = layout.take(room(shape));
  attention_.hold(space.attention, layout, shape);
}

uint64_t Layer::saved_bytes(const Shape& shape, size_t part) const {
  if (shape.mode != Mode::train) {
    return part == norm_2 ? own_bytes(shape) : part == route ? mlp_->routed_bytes(shape) : 0;
  }
  BumpAllocator layout;
  Kept kept{};
  keep(kept, part, layout, shape);
  return layout.bytes();
}

uint64_t Layer::held_bytes(const Shape& shape, size_t part) const {
  BumpAllocator layout;
  BackwardSpace space{};
  hold(space, part, layout, shape);
  return layout.bytes();
}

uint64_t Layer::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  Kept kept{};
  forward_space(layout, shape, kept);
  return layout.bytes();
}

uint64_t Layer::backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const {
  check_shape(shape);
  BumpAllocator layout;
  backward_space(layout, shape, parts, half);
  return layout.bytes();
}

uint64_t Layer::cache_bytes(const Shape& shape) const {
  return attention_.pattern.causal ? attention_cache(attention_.shape_of(shape)) : 0;
}

double Layer::attention_flops(const Shape& shape, Parts parts) const {
  return parts.has(attention) ? attention_.flops(shape) : 0;
}

Scores Layer::scores(const Shape& shape) const {
  return {shape.B * attention_.heads, shape.T, attention_.width};
}

double Layer::forward_flops(const Shape& shape, Parts parts) const {
  double flops = attention_flops(shape, parts);
  if (parts.has(attention)) {
    for (const Linear& linear : attention_.linears()) flops += linear.flops(shape);
  }
  if (parts.has(route)) flops += mlp_->flops(shape, MlpPart::route);
  if (parts.has(hidden)) flops += mlp_->flops(shape, MlpPart::hidden);
  if (parts.has(projection)) flops += mlp_->flops(shape, MlpPart::projection);
  return flops;
}

void Layer::decode(const Call& call) const {
  if (!attention_.pattern.causal) {
    throw core::Error(
        fmt::format("Block {} sees the tokens behind each token too, so it cannot make text token by token.", name_));
  }
  forward(call);
}

}  // namespace zrt::models
