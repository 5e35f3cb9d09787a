// A linear layer of a block with the parameters that the block declares for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/adapters.h"
#include "models/common/linear.h"
#include "models/param.h"

namespace zrt::models {

struct Product {
  Linear linear;
  size_t weight = 0;   // its index among the block's parameters; the bias lies behind it
  int64_t column = 0;  // where its outputs begin in rows that it shares with other products

  void* outputs_in(DType type, void* rows) const {
    return static_cast<std::byte*>(rows) + static_cast<uint64_t>(column) * core::dtype_size(type);
  }
};

// Bytes of all rows of a microbatch.
inline uint64_t bytes_of_rows(const Shape& shape, int64_t width) {
  return static_cast<uint64_t>(shape.rows() * width) * core::dtype_size(shape.type);
}

// Adds name.weight, and name.bias if it has one, to the parameters, and returns what a rank has of `whole`: a part of
// its inputs if it is shared, else of its outputs. deviation: of the weights at the start; sections: Slice::sections of
// the outputs.
Product add_product(std::vector<Param>& params, int ranks, const std::string& name, const Linear& whole,
                    float deviation, int64_t sections = 1);

// Adds prefix.lora_A.weight and prefix.lora_B.weight to the parameters, the adapter of `product`, which add_product()
// made of the rest. A starts as PEFT's does, with normal numbers instead of uniform ones; B is zero.
void add_adapter(Product& product, std::vector<Param>& params, int ranks, const std::string& name, const Linear& whole,
                 const Adapters& adapters, int64_t sections);

// Products of one input, whose outputs stand side by side in rows, and whose gradients of that input are added up.
std::vector<Product> side_by_side(std::vector<Product> products);

}  // namespace zrt::models
