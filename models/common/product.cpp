#include "models/common/product.h"

namespace zrt::models {

Product add_product(std::vector<Param>& params, int ranks, const std::string& name, const Linear& whole,
                    float deviation, int64_t sections) {
  const bool turned = whole.stored == Linear::Stored::out_in;
  const size_t inputs = turned ? 1 : 0, outputs = turned ? 0 : 1;  // dimensions of the weight
  Param weight{name + ".weight", {whole.in, whole.out}, Init::normal, deviation};
  if (turned) weight.shape = {whole.out, whole.in};
  weight = sliced(std::move(weight), whole.shared ? inputs : outputs, ranks, sections);
  Product part{whole, params.size()};
  part.linear.in = weight.shape[inputs], part.linear.out = weight.shape[outputs];
  part.linear.shared = whole.shared && ranks > 1;
  params.push_back(std::move(weight));
  if (!whole.bias) return part;
  Param bias{name + ".bias", {whole.out}, Init::zeros};
  params.push_back(whole.shared ? std::move(bias) : sliced(std::move(bias), 0, ranks, sections));
  return part;
}

std::vector<Product> side_by_side(std::vector<Product> products) {
  int64_t width = 0;
  for (Product& product : products) {
    product.column = width, product.linear.joined = width > 0;
    width += product.linear.out;
  }
  for (Product& product : products) product.linear.stride = width;
  return products;
}

}  // namespace zrt::models
