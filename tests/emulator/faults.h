// Tests ask the emulated GPU for these, which a real one cannot be asked for, as long as the object lives.
#pragma once

namespace zrt::emulator {

// Work queued so far does not run, and whoever waits or asks for it is told of an illegal memory access.
struct Fault {
  Fault();
  ~Fault();
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

// A device of another kind than those that kernels were compiled for.
struct NoImage {
  NoImage();
  ~NoImage();
  NoImage(const NoImage&) = delete;
  NoImage& operator=(const NoImage&) = delete;
};

}  // namespace zrt::emulator
