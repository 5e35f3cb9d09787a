// Marks functions that kernels of the CUDA back end call too; elsewhere it is nothing.
#pragma once
#ifdef __CUDACC__
#define ZRT_HD __host__ __device__
#else
#define ZRT_HD
#endif
