// Opening devices: which drivers do.
#pragma once

namespace tang {

/// A machine error, with both versions, when a driver that supports CUDA `driver` (12040: 12.4) cannot run a
/// program built with CUDA `runtime`. Minor versions may differ. 0: no driver at all, which is the caller's
/// case.
void require_driver(int driver, int runtime);

}  // namespace tang
