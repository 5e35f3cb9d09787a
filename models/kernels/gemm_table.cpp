// The kernel table: every product this process has asked for, by spec, device and, on the CPU, thread count.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>

#include "core/device.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "models/kernels/backend.h"
#include "models/kernels/candidates.h"

namespace zrt::models {
namespace {

struct ProductKey {
  GemmSpec spec;
  int threads = 1;  // 0 on a GPU
  bool operator==(const ProductKey&) const = default;
};

struct ProductHash {
  size_t operator()(const ProductKey& key) const {
    const GemmSpec& s = key.spec;
    uint64_t hash = 0x9E3779B97F4A7C15ull;
    const uint64_t flags = (s.trans_a ? 1u : 0u) | (s.trans_b ? 2u : 0u) | (s.bias ? 4u : 0u) |
                           (s.accumulate ? 8u : 0u) | (s.add ? 16u : 0u) | (static_cast<uint64_t>(s.epilogue) << 5) |
                           (s.fp8 ? 128u : 0u) | (static_cast<uint64_t>(s.a) << 8) |
                           (static_cast<uint64_t>(s.b) << 16) | (static_cast<uint64_t>(s.c) << 24) |
                           (static_cast<uint64_t>(key.threads) << 32);
    const uint64_t alpha = std::bit_cast<uint32_t>(s.alpha);
    for (const uint64_t word :
         {static_cast<uint64_t>(s.M), static_cast<uint64_t>(s.N), static_cast<uint64_t>(s.K),
          static_cast<uint64_t>(s.lda), static_cast<uint64_t>(s.ldb), static_cast<uint64_t>(s.ldc), flags, alpha}) {
      hash = (hash ^ word) * 0xBF58476D1CE4E5B9ull;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

struct Table {
  std::mutex mutex;
  std::unordered_map<ProductKey, std::unique_ptr<Gemm>, ProductHash> gemms;
};

Table& table() {
  static Table instance;
  return instance;
}

void check_product(const GemmSpec& spec) {
  const int64_t a_row = spec.trans_a ? spec.M : spec.K, b_row = spec.trans_b ? spec.K : spec.N;
  if (spec.M < 1 || spec.N < 1 || spec.K < 1 || spec.lda < a_row || spec.ldb < b_row || spec.ldc < spec.N ||
      (spec.bias && spec.alpha != 1)) {
    throw core::Error(
        fmt::format("The matrix product {} is malformed: M, N and K must be positive, leading dimensions at least the "
                    "stored row lengths (here {}, {} and {}), and a bias needs alpha = 1.",
                    spec.text(), a_row, b_row, spec.N));
  }
  const bool epilogue = spec.epilogue != Epilogue::none;
  if (spec.accumulate + spec.add + epilogue > 1 || (spec.epilogue == Epilogue::gelu_gradient && spec.bias)) {
    throw core::Error(
        fmt::format("The matrix product {} asks for more than one of accumulate, add and an epilogue, or for the "
                    "gradient of GELU with a bias.",
                    spec.text()));
  }
}

// True where `fp8` applies to the product.
bool rounds_operands(const GemmSpec& spec) {
  const bool whole = spec.M % 16 == 0 && spec.N % 16 == 0 && spec.K % 16 == 0 && spec.ldc % 16 == 0;
  return spec.fp8 && whole && spec.a == DType::bf16 && spec.b == DType::bf16;
}

}  // namespace

std::string GemmSpec::text() const {
  constexpr std::array<std::string_view, 3> epilogues{"", " gelu", " gelu gradient"};
  return fmt::format("{}x{}x{} {}{} {}{} -> {} ld {} {} {}{}{}{}{} alpha {}{}", M, N, K, core::dtype_name(a),
                     trans_a ? "^T" : "", core::dtype_name(b), trans_b ? "^T" : "", core::dtype_name(c), lda, ldb, ldc,
                     bias ? " bias" : "", accumulate ? " accumulate" : "", add ? " add" : "",
                     epilogues[static_cast<size_t>(epilogue)], alpha, fp8 ? " fp8" : "");
}

const Gemm& find_gemm(const GemmSpec& asked) {
  GemmSpec spec = asked;
  spec.fp8 = rounds_operands(asked);
  // Entries never move or die, so each thread may remember them without a lock.
  thread_local std::unordered_map<ProductKey, const Gemm*, ProductHash> remembered;
  const core::DeviceKind device = core::place().device;
  const ProductKey key{spec, device == core::DeviceKind::cpu ? core::threads() : 0};
  const auto known = remembered.find(key);
  if (known != remembered.end()) return *known->second;
  check_product(spec);
  const std::lock_guard lock(table().mutex);
  std::unique_ptr<Gemm>& entry = table().gemms[key];
  if (!entry) entry = backend(device).make_gemm(spec);
  remembered.emplace(key, entry.get());
  return *entry;
}

bool products_fuse() {
  return backend(core::place().device).products_fuse;
}

int64_t product_stride(int64_t columns) {
  const int64_t unit = backend(core::place().device).product_stride;
  return (columns + unit - 1) / unit * unit;
}

std::vector<GemmSpec> found_products(core::DeviceKind device) {
  std::map<std::string, GemmSpec> products;
  const std::lock_guard lock(table().mutex);
  for (const auto& [key, gemm] : table().gemms) {
    if (gemm && (key.threads == 0) == (device == core::DeviceKind::cuda)) products.emplace(key.spec.text(), key.spec);
  }
  std::vector<GemmSpec> specs;
  for (const auto& [text, spec] : products) specs.push_back(spec);
  return specs;
}

std::string kernel_table_hash() {
  std::set<std::string> lines;
  bool on_cpu = false, on_gpu = false;
  {
    const std::lock_guard lock(table().mutex);
    for (const auto& [key, gemm] : table().gemms) {
      if (!gemm) continue;
      (key.threads > 0 ? on_cpu : on_gpu) = true;
      const std::string where = key.threads > 0 ? fmt::format("threads {}", key.threads) : "cuda";
      lines.insert(
          fmt::format("{} {} -> {}, {}\n", key.spec.text(), where, gemm->algorithm(), gemm->workspace_bytes()));
    }
  }
  core::Hash hash;
  for (const auto& [used, device] : {std::pair{on_cpu, core::DeviceKind::cpu}, {on_gpu, core::DeviceKind::cuda}}) {
    const std::string version = used ? backend(device).libraries() + "\n" : "";
    hash.update(version.data(), version.size());
  }
  for (const std::string& line : lines) hash.update(line.data(), line.size());
  return hash.hex();
}

}  // namespace zrt::models
