#include "models/common/product.h"

#include <algorithm>
#include <cmath>

#include "models/sharing.h"

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

void add_adapter(Product& product, std::vector<Param>& params, int ranks, const std::string& name, const Linear& whole,
                 const Adapters& adapters, int64_t sections) {
  const auto variance = 1 / (3 * static_cast<double>(whole.in));
  Param down{name + ".lora_A.weight", {adapters.rank, whole.in}, Init::normal, static_cast<float>(std::sqrt(variance))};
  Param up{name + ".lora_B.weight", {whole.out, adapters.rank}, Init::zeros};
  // Each rank has a part of the gradient of what all have.
  if (ranks > 1 && whole.shared) {
    down = sliced(std::move(down), 1, ranks), up.summed = true;
  } else if (ranks > 1) {
    up = sliced(std::move(up), 0, ranks, sections), down.summed = true;
  }
  down.adapter = up.adapter = true;
  const auto before = std::count_if(params.begin(), params.end(), [](const Param& param) { return param.adapter; });
  const auto layer = static_cast<uint32_t>(std::max<int64_t>(0, layer_of(name + ".")));
  constexpr uint32_t first_site = 1 << 22, sites_of_layer = 64;  // behind those of layers' own dropout
  product.linear.adapter = {adapters.rank,    adapters.scale(),
                            adapters.dropout, first_site + layer * sites_of_layer + static_cast<uint32_t>(before),
                            params.size(),    params.size() + 1};
  params.push_back(std::move(down));
  params.push_back(std::move(up));
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
