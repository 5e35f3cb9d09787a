// The device, errors, and the faults that tests ask for.
#include <cstdlib>
#include <utility>

#include "emulator/block.h"
#include "emulator/faults.h"
#include "emulator/queue.h"

namespace zrt::emulator {

static thread_local cudaError_t last_error = cudaSuccess;
static bool no_image = false;
// 10 · compute capability.
static int chip() {
  const char* given = std::getenv("ZRT_EMULATED_CHIP");
  return given ? std::atoi(given) : 90;
}
bool fault = false;  // until the test takes it back, as a real one until the process ends

cudaError_t result(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

Fault::Fault() {
  const std::lock_guard lock(gate);
  fault = true;
}
Fault::~Fault() {
  const std::lock_guard lock(gate);
  fault = false;
}
NoImage::NoImage() {
  no_image = true;
}
NoImage::~NoImage() {
  no_image = false;
}
cudaError_t image_error() {
  return no_image ? result(cudaErrorNoKernelImageForDevice) : cudaSuccess;
}

}  // namespace zrt::emulator

using namespace zrt::emulator;

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaSuccess ? "cudaSuccess" : "cudaError of the emulator";
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined:
      return "capture has work that the origin does not wait for";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureIsolation:
      return "dependency on uncaptured work in another stream";
    default:
      return "invalid argument";
  }
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", chip() / 10, chip() % 10, 132};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = chip() / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = chip() % 10;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char*, int, int) {
  return cudaErrorInvalidValue;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
