#include "core/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace zrt::core {

struct Hash::Impl {
  XXH3_state_t* state = XXH3_createState();
  Impl() { XXH3_64bits_reset(state); }
  ~Impl() { XXH3_freeState(state); }
};

Hash::Hash() : impl_(std::make_unique<Impl>()) {}
Hash::~Hash() = default;
Hash::Hash(Hash&&) noexcept = default;
void Hash::update(const void* data, size_t bytes) {
  XXH3_64bits_update(impl_->state, data, bytes);
}
uint64_t Hash::digest() const {
  return XXH3_64bits_digest(impl_->state);
}
std::string Hash::hex() const {
  return fmt::format("{:016x}", digest());
}

uint64_t xxh3(const void* data, size_t bytes) {
  return XXH3_64bits(data, bytes);
}

}  // namespace zrt::core
