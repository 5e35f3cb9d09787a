// The device, errors, and the faults that tests ask for.
#include <cstdlib>
#include <utility>

#include "emulator/block.h"
#include "emulator/faults.h"
#include "emulator/queue.h"

namespace zrt::emulator {

static thread_local cudaError_t last_error = cudaSuccess;
static bool no_image = false;
static thread_local int device_of_thread = 0;
// 10 · compute capability.
static int chip() {
  const char* given = std::getenv("ZRT_EMULATED_CHIP");
  return given ? std::atoi(given) : 90;
}
int current_device() {
  return device_of_thread;
}
int device_count() {
  const char* given = std::getenv("ZRT_EMULATED_GPUS");
  return given ? std::atoi(given) : 8;
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
  *device = current_device();
  return cudaSuccess;
}

// A GPU that there was once stays, though it is counted no more.
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= 64) return result(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return result(cudaErrorInvalidDevice);
  *properties = {"emulated GPU", chip() / 10, chip() % 10, 132, {}};
  properties->uuid.bytes[15] = static_cast<char>(device);
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
