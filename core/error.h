// Typed errors. Every message names what failed, where, the value and what would be legal.
#pragma once
#include <stdexcept>
#include <string>

namespace zrt::core {

// Base of all errors zrt throws; `zrt` prints what() and exits with exit_code().
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual int exit_code() const { return 1; }
};

// The command line cannot be understood.
class UsageError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 2; }
};

// A configuration key is unknown, has the wrong type or contradicts another. Starting again would repeat it, which the
// exit code tells a supervisor.
class ConfigError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 2; }
};

// A file of tokens, weights or text is missing, truncated or corrupt.
class DataError : public Error {
 public:
  using Error::Error;
};

// A collective failed: mismatched calls, a missing rank, a time-out.
class CommError : public Error {
 public:
  using Error::Error;
};

// Planned memory does not fit its tier; what() holds the ledger and the changes that would make it fit.
class MemoryError : public Error {
 public:
  using Error::Error;
};

// Training left the range of its numbers: a loss scale cannot fall further.
class NumericError : public Error {
 public:
  using Error::Error;
};

// A program breaks a rule of the verifier, or a run breaks its program (a red zone was hit).
class ProgramError : public Error {
 public:
  using Error::Error;
};

}  // namespace zrt::core
