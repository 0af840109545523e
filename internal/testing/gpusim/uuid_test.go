//go:build linux && cgo

package gpusim_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

type uuid [16]byte

// uuidWanted asks this program, run again, for device 0's UUID under other environments.
const uuidWanted = "GPUSIM_TEST_UUID_WANTED"

// "Device Management", cuDeviceGetUuid.
func TestEveryDeviceHasAUUIDOfItsOwn(t *testing.T) {
	d := gpusimtest.Start(t)
	var first, again, second uuid
	d.OK("cuDeviceGetUuid", &first, 0)
	d.OK("cuDeviceGetUuid_v2", &again, 0)
	d.OK("cuDeviceGetUuid_v2", &second, 1)
	instance := os.Getenv("DLX_GPUSIM_MIG") == "1" // of which only the second version tells
	if (first == again) == instance || again == second || first == (uuid{}) {
		t.Errorf("device 0 has %x and %x, device 1 %x", first, again, second)
	}
	d.Want(gpusimtest.InvalidDevice, "cuDeviceGetUuid_v2", &first, 99)
	d.Want(gpusimtest.InvalidValue, "cuDeviceGetUuid_v2", nil, 0)
	if want := os.Getenv(uuidWanted); want != "" && strings.TrimRight(string(first[:]), "\x00") != want {
		t.Errorf("device 0 has %q, want %q", first, want)
	}
}

// The UUID is looked up once in a process, so each case has one.
func TestWhereTheUUIDComesFrom(t *testing.T) {
	gpusimtest.Start(t)
	const own = "dlx simulated 0"
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"the environment", []string{"DLX_GPUSIM_UUID=30313233-3435-3637-3839-616263646566"}, "0123456789abcdef"},
		{"an instance of a card", []string{"DLX_GPUSIM_MIG=1", "VK_ICD_FILENAMES=/nonexistent", "VK_DRIVER_FILES=/nonexistent"}, own},
		{"no driver of Vulkan", []string{"VK_ICD_FILENAMES=/nonexistent", "VK_DRIVER_FILES=/nonexistent"}, own},
		{"an environment that is no UUID", []string{"DLX_GPUSIM_UUID=1234", "VK_ICD_FILENAMES=/nonexistent", "VK_DRIVER_FILES=/nonexistent"}, own},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := exec.Command(os.Args[0], "-test.run=^TestEveryDeviceHasAUUIDOfItsOwn$")
			program.Env = append(os.Environ(), append(c.env, uuidWanted+"="+c.want)...)
			if out, err := program.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
