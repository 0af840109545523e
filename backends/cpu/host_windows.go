package cpu

import "golang.org/x/sys/windows/registry"

// processorName is the name that Windows found at start-up, or empty.
func processorName() string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer func() { _ = key.Close() }()
	name, _, _ := key.GetStringValue("ProcessorNameString")
	return name
}

// totalMemory is unknown: x/sys/windows does not have the call.
func totalMemory() int64 { return 0 }

// freeMemory is not known here.
func freeMemory() int64 { return 0 }
