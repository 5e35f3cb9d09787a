// The head that tells whether two runs of text are in order (Devlin et al., "BERT", 2019; of runs that follow each
// other: Lan et al., "ALBERT", 2020). The row of a sample's first token goes through a linear layer and tanh, which
// takes the place of what the other head makes of that row; two logits of it, and their loss, are every rank's own
// affair. The loss of a sample counts as much as those of all its hidden tokens together, so that both heads' means are
// added.
#pragma once
#include <string>
#include <vector>

#include "models/bump_allocator.h"
#include "models/common/linear.h"
#include "models/masking.h"
#include "models/shape.h"

namespace zrt::models {

class OrderHead {
 public:
  struct Names {
    std::string pooler, classifier;
  };
  OrderHead(int64_t hidden, const Masking& masking)
      : C_(hidden), masking_(masking), pooler_{hidden, hidden, Linear::Stored::out_in, true} {}

  // summed: of the pooler, whose rows ranks may share.
  void add_params(std::vector<Param>& params, const Names& names, bool summed);

  struct Space {
    void *rows, *d_rows;      // (n, C) of own first tokens
    void *logits, *d_logits;  // (B, 2)
    float* gradients;         // of the classifier: weight, then bias
  };
  // share: the most rows that a rank has of its own.
  Space space_in(BumpAllocator& layout, const Shape& shape, int64_t share) const;
  uint64_t scratch(const Shape& shape, int64_t share, int ranks, int64_t stride) const;

  // Pools the rows of first tokens in `rows`, own rows of width C, into space.d_rows; put() writes these over the rows.
  void pool(const Call& call, const Rows& own, const void* rows, const Space& space, std::byte* scratch) const;
  void put(const Call& call, const Rows& own, const Space& space, void* rows) const;
  // Backward calls these in this order. `pooled` holds what put() wrote, d its gradient, from which it is taken away.
  void take(const Call& call, const Rows& own, const void* pooled, void* d, const Space& space) const;
  void keep_input(const Call& call, const Rows& own, const void* rows, const Space& space) const;
  // d: gradient of what pool() read, without the pooler's.
  void finish(const Call& call, const Rows& own, const Space& space, void* d, std::byte* scratch) const;

  // Logits of all samples, rows `stride` apart, from all rows.
  void classify(const Call& call, const void* rows, void* logits, int64_t stride, std::byte* scratch) const;
  void finish_loss(const Call& call, const void* logits, int64_t stride, float gradient_scale, const Space& space,
                   double* losses) const;
  // Makes, from space.d_logits, d's rows of first tokens; weight_gradients() makes the classifier's gradients.
  void input_gradient(const Call& call, const Space& space, void* d, std::byte* scratch) const;
  void weight_gradients(const Call& call, const void* rows, const Space& space, std::byte* scratch) const;

 private:
  struct First {
    int64_t at = 0, count = 0;  // of own rows
  };
  static First first_tokens(const Rows& own, int64_t T);
  Call of_rows(const Call& call, int64_t count) const;
  void* place(const Call& call, const First& first, void* rows) const;
  GemmSpec logits_spec(const Shape& shape, int64_t stride) const;
  GemmSpec input_spec(const Shape& shape) const;
  GemmSpec weight_spec(const Shape& shape) const;

  int64_t C_;
  Masking masking_;
  Linear pooler_;
  size_t pooler_weight_ = 0, classifier_weight_ = 0;
};

}  // namespace zrt::models
