// The part of the driver's interface that is taken from it by cudaGetDriverEntryPoint.
#pragma once
#include <cuda_runtime_api.h>

enum CUresult : int { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_NOT_SUPPORTED = 801 };
using CUstream = cudaStream_t;
using CUdeviceptr = unsigned long long;
using cuuint32_t = uint32_t;
enum { CU_STREAM_WAIT_VALUE_GEQ = 0, CU_STREAM_WRITE_VALUE_DEFAULT = 0 };
