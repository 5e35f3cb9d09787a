#include "comm/process/wire.h"

#include <cstring>
#include <type_traits>

#include "core/error.h"

namespace zrt::comm {
namespace {

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(&value, sizeof value);
  }
  void put_bytes(const void* data, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  const std::byte* take(size_t bytes) {
    if (bytes > bytes_.size()) throw core::CommError("a call of another rank arrived cut short");
    const std::byte* first = bytes_.data();
    bytes_ = bytes_.subspan(bytes);
    return first;
  }
  // A count of items that take at least a byte each.
  size_t count() {
    const auto n = get<uint32_t>();
    if (n > bytes_.size()) throw core::CommError("a call of another rank arrived cut short");
    return n;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Calls take(data, bytes) for every buffer that peers read.
template <class Take>
void for_each_source(const CollectiveCall& call, int size, const Take& take) {
  for (const CallRange& range : call.ranges) take(range.source, source_bytes(call, range, size));
  for (const Message& message : call.sends) take(message.data, message.bytes);
}

void put_messages(Writer& out, const std::vector<Message>& messages) {
  out.put(static_cast<uint32_t>(messages.size()));
  for (const Message& message : messages) {
    out.put(message.peer);
    out.put(message.bytes);
  }
}

void get_messages(Reader& in, std::vector<Message>& messages) {
  messages.resize(in.count());
  for (Message& message : messages) {
    message.peer = in.get<int>();
    message.data = nullptr;
    message.bytes = in.get<uint64_t>();
  }
}

}  // namespace

uint64_t source_bytes(const CollectiveCall& call, const CallRange& range, int size) {
  const bool all_ranks = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all;
  return static_cast<uint64_t>(range.count) * core::dtype_size(call.from) *
         (all_ranks ? static_cast<uint64_t>(size) : 1);
}

bool sources_shared(const CollectiveCall& call, int size, const SharedArenas& arenas) {
  bool shared = true;
  for_each_source(call, size, [&](const void* data, uint64_t bytes) {
    shared = shared && (bytes == 0 || arenas.locate(data, bytes));
  });
  return shared;
}

std::vector<std::byte> encode(const CollectiveCall& call, uint64_t sequence, int size, const SharedArenas& arenas) {
  Writer out;
  const bool shared = sources_shared(call, size, arenas);
  out.put(sequence);
  out.put(static_cast<uint8_t>(call.kind));
  out.put(static_cast<uint8_t>(call.from));
  out.put(static_cast<uint8_t>(call.to));
  out.put(static_cast<uint8_t>(shared));
  out.put(call.root);
  out.put(static_cast<uint32_t>(call.label.size()));
  out.put_bytes(call.label.data(), call.label.size());
  out.put(static_cast<uint32_t>(call.ranges.size()));
  for (const CallRange& range : call.ranges) {
    out.put(range.count);
    out.put(static_cast<uint8_t>(range.accumulate));
  }
  out.put(static_cast<uint32_t>(call.used.size()));
  for (const int64_t used : call.used) out.put(used);
  put_messages(out, call.sends);
  put_messages(out, call.receives);
  if (shared) {
    for_each_source(call, size, [&](const void* data, uint64_t bytes) {
      out.put(bytes == 0 ? SharedAddress{} : *arenas.locate(data, bytes));
    });
  }
  return out.take();
}

RemoteCall decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  RemoteCall remote;
  CollectiveCall& call = remote.call;
  remote.sequence = in.get<uint64_t>();
  const auto kind = in.get<uint8_t>(), from = in.get<uint8_t>(), to = in.get<uint8_t>();
  if (kind >= collective_kind_count) throw core::CommError("a call of another rank is of no known kind");
  call.kind = static_cast<CollectiveKind>(kind);
  call.from = static_cast<DType>(from), call.to = static_cast<DType>(to);
  remote.shared = in.get<uint8_t>() != 0;
  call.root = in.get<int>();
  const size_t label = in.count();
  call.label.assign(reinterpret_cast<const char*>(in.take(label)), label);
  call.ranges.resize(in.count());
  for (CallRange& range : call.ranges) {
    range = {nullptr, nullptr, in.get<int64_t>(), false};
    range.accumulate = in.get<uint8_t>() != 0;
  }
  call.used.resize(in.count());
  for (int64_t& used : call.used) used = in.get<int64_t>();
  get_messages(in, call.sends);
  get_messages(in, call.receives);
  if (remote.shared) {
    remote.sources.resize(call.ranges.size() + call.sends.size());
    for (SharedAddress& source : remote.sources) source = in.get<SharedAddress>();
  }
  return remote;
}

void resolve_sources(RemoteCall& remote, int pid, int size, SharedArenas& arenas) {
  if (!remote.shared) return;
  auto resolve = [&](size_t index, uint64_t bytes) {
    return bytes == 0 ? nullptr : arenas.resolve(pid, remote.sources[index], bytes);
  };
  size_t index = 0;
  for (CallRange& range : remote.call.ranges) {
    range.source = resolve(index++, source_bytes(remote.call, range, size));
  }
  for (Message& message : remote.call.sends) {
    message.data = const_cast<std::byte*>(resolve(index++, message.bytes));  // only read
  }
}

}  // namespace zrt::comm
