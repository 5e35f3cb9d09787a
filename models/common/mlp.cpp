#include "models/common/mlp.h"

#include <algorithm>

namespace zrt::models {

double Mlp::flops(const Shape& shape, MlpPart part) const {
  double flops = 0;
  for (const Linear& linear : linears(part)) flops += linear.flops(shape);
  return flops;
}

std::vector<GemmSpec> Mlp::products(const Shape& shape) const {
  std::vector<GemmSpec> all;
  for (const MlpPart part : {MlpPart::hidden, MlpPart::projection}) {
    for (const Linear& linear : linears(part)) {
      for (const GemmSpec& spec : linear.products(shape)) all.push_back(spec);
    }
  }
  return all;
}

uint64_t Mlp::forward_scratch(const Shape& shape) const {
  uint64_t bytes = 0;
  for (const MlpPart part : {MlpPart::hidden, MlpPart::projection}) {
    for (const Linear& linear : linears(part)) bytes = std::max(bytes, linear.forward_scratch(shape));
  }
  return bytes;
}

uint64_t Mlp::backward_scratch(const Shape& shape) const {
  uint64_t bytes = 0;
  for (const MlpPart part : {MlpPart::hidden, MlpPart::projection}) {
    for (const Linear& linear : linears(part)) bytes = std::max(bytes, linear.backward_scratch(shape));
  }
  return bytes;
}

}  // namespace zrt::models
