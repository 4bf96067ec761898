#include "lib/cuda/absent.cpp"  // replaced by the CUDA room's own device in the next commits
