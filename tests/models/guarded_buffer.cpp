#include "tests/models/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/arena.h"
#include "tests/device.h"

namespace zrt::test {

using core::DType;

namespace {

template <class Element>
void store_as(std::byte* data, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Element element = core::store<Element>(static_cast<float>(values[i]));
    std::memcpy(data + i * sizeof element, &element, sizeof element);
  }
}

template <class Element>
void load_as(const std::byte* data, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, data + i * sizeof element, sizeof element);
    values[i] = core::to_float(element);
  }
}

}  // namespace

GuardedBuffer::GuardedBuffer(uint64_t bytes)
    : bytes_(bytes),
      data_(static_cast<std::byte*>(allocate_visible(bytes + core::red_zone_bytes)),
            Free{bytes + core::red_zone_bytes}) {
  poison();
  core::paint_red_zone(data_.get() + bytes_);
}

void GuardedBuffer::Free::operator()(std::byte* data) const {
  free_visible(data, bytes);
}

void GuardedBuffer::poison() {
  settle();
  std::fill_n(data_.get(), bytes_, std::byte{0xFF});
}

void GuardedBuffer::check(const std::string& what) const {
  settle();
  if (!core::red_zone_intact(data_.get() + bytes_))
    throw std::runtime_error(what + " wrote behind its " + std::to_string(bytes_) + " bytes");
}

void GuardedBuffer::store(DType type, const std::vector<double>& values) {
  if (values.size() * core::dtype_size(type) > bytes_) throw std::runtime_error("more values than the buffer holds");
  settle();
  if (type == DType::f32) return store_as<float>(data(), values);
  if (type == DType::bf16) return store_as<core::bf16>(data(), values);
  if (type == DType::f16) return store_as<core::f16>(data(), values);
  throw std::runtime_error("not a floating type");
}

std::vector<double> GuardedBuffer::load(DType type, int64_t elements) const {
  std::vector<double> values(elements);
  if (values.size() * core::dtype_size(type) > bytes_) throw std::runtime_error("more values than the buffer holds");
  settle();
  if (type == DType::f32) load_as<float>(data(), values);
  if (type == DType::bf16) load_as<core::bf16>(data(), values);
  if (type == DType::f16) load_as<core::f16>(data(), values);
  return values;
}

}  // namespace zrt::test
