//go:build !(cuda && linux && cgo)

package facts

// readCards reads nothing: clocks of cards are read by NVML, in builds with the tag cuda.
func readCards([]Device, func(*Device) *DeviceReading) {}
