// Lets the system refuse things to a thread: calls by a seccomp filter, privileges by giving them up. Both last as long
// as the thread, so bodies run on one of their own.
#pragma once
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>

namespace zrt::testing {

// One system call fails with `error`; if `argument` is given, only where that one's lower half has the bits of `mask`.
struct RefusedCall {
  uint32_t number;
  uint32_t error;
  int argument = -1;
  uint32_t mask = 0;
};

inline void refuse(const RefusedCall& call) {
  const auto place = [](size_t offset) { return static_cast<uint32_t>(offset); };
  const auto jump = [](uint16_t how, uint32_t value, uint8_t yes, uint8_t no) {
    return sock_filter{static_cast<uint16_t>(BPF_JMP | how | BPF_K), yes, no, value};
  };
  const size_t argument = offsetof(seccomp_data, args) + 8 * static_cast<size_t>(call.argument < 0 ? 0 : call.argument);
  sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, place(offsetof(seccomp_data, nr))},
      jump(BPF_JEQ, call.number, 0, 3),
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, place(argument)},
      jump(BPF_JSET, call.mask, 0, static_cast<uint8_t>(call.argument < 0 ? 0 : 1)),
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | call.error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  sock_fprog program{sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("this system takes no seccomp filter");
  }
}

inline void drop_capability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) throw std::runtime_error("capabilities cannot be read");
  data[capability / 32].effective &= ~(1u << (capability % 32));
  if (syscall(SYS_capset, &header, data) != 0) throw std::runtime_error("a capability cannot be dropped");
}

inline void on_thread(const std::function<void()>& body) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

inline void with_refused(const RefusedCall& call, const std::function<void()>& body) {
  on_thread([&] {
    refuse(call);
    body();
  });
}

}  // namespace zrt::testing
