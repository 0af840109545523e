package machinecode

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CountAMD returns the kernels of a code object for AMD's cards in the order of their names. Disassembly is what llvm-objdump -d
// prints of it. Registers are vector registers, of which each lane of a wave has its own. It fails if a kernel keeps registers in
// memory, or uses an instruction for memory that it does not know.
//
// The descriptors of kernels and the counters of s_waitcnt are documented in LLVM's "User Guide for AMDGPU Backend", "Kernel
// Descriptor" and "Memory Model".
func CountAMD(image, disassembly string) ([]Kernel, error) {
	descriptors, err := descriptorsOf(image)
	if err != nil {
		return nil, fmt.Errorf("machinecode: %w", err)
	}
	var kernels []Kernel
	var flying vectorMemory
	lines := bufio.NewScanner(strings.NewReader(disassembly))
	for lines.Scan() {
		line := lines.Text()
		if m := label.FindStringSubmatch(line); m != nil {
			d, ok := descriptors[m[1]]
			if !ok {
				return nil, fmt.Errorf("machinecode: code of %s, which is no kernel", m[1])
			}
			kernels = append(kernels, Kernel{Name: m[1], Registers: d.registers, Shared: d.shared})
			flying = vectorMemory{storesToo: !d.storesApart}
		} else if text, ok := strings.CutPrefix(line, "\t"); ok && len(kernels) > 0 && !strings.HasPrefix(text, "s_code_end") {
			if err := flying.next(&kernels[len(kernels)-1], text); err != nil {
				return nil, fmt.Errorf("machinecode: %w", err)
			}
		}
	}
	if len(kernels) != len(descriptors) {
		return nil, fmt.Errorf("machinecode: code of %d kernels, and descriptors of %d", len(kernels), len(descriptors))
	}
	slices.SortFunc(kernels, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	return kernels, lines.Err()
}

var (
	label  = regexp.MustCompile(`^[0-9a-f]+ <(\w+)>:$`)
	access = regexp.MustCompile(`^global_(load|store)_(?:d16_)?(?:hi_)?([us]?byte|[us]?short|dword(?:x[234])?|[uib]\d+)(?:_d16)?(?:_hi)?$`)
	others = regexp.MustCompile(`^(flat|scratch|buffer|global|image)_`)
	caches = regexp.MustCompile(`^buffer_(gl[01]_inv|wbinvl1\w*)$`)
	vmcnt  = regexp.MustCompile(`vmcnt\((\d+)\)`)
)

// descriptor is what a code object says of a kernel.
type descriptor struct {
	registers, shared int
	storesApart       bool // stores have a counter of their own
}

func descriptorsOf(image string) (map[string]descriptor, error) {
	f, err := elf.NewFile(strings.NewReader(image))
	if err != nil {
		return nil, err
	}
	const amd = 224 // EM_AMDGPU
	if f.Machine != amd {
		return nil, fmt.Errorf("code for %v", f.Machine)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	// elf does not keep e_flags, whose lowest byte is the processor.
	processor := image[48]
	descriptors := make(map[string]descriptor)
	for _, s := range symbols {
		name, ok := strings.CutSuffix(s.Name, ".kd")
		if !ok {
			continue
		}
		if int(s.Section) >= len(f.Sections) {
			return nil, fmt.Errorf("%s: section %d of %d", s.Name, s.Section, len(f.Sections))
		}
		section := f.Sections[s.Section]
		b := make([]byte, 64)
		if _, err := section.ReadAt(b, int64(s.Value-section.Addr)); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if scratch := binary.LittleEndian.Uint32(b[4:]); scratch != 0 {
			return nil, fmt.Errorf("%s: %d bytes of registers are in memory", name, scratch)
		}
		const wave32, gfx90a, gfx940 = 1 << 10, 0x3f, 0x40
		small := binary.LittleEndian.Uint16(b[56:])&wave32 != 0 // since gfx10
		granule := 4
		if small || processor == gfx90a || processor == gfx940 {
			granule = 8
		}
		descriptors[name] = descriptor{
			registers:   (int(binary.LittleEndian.Uint32(b[48:])&0x3f) + 1) * granule,
			shared:      int(binary.LittleEndian.Uint32(b)),
			storesApart: small,
		}
	}
	return descriptors, nil
}

// vectorMemory is the loads that a wave has not waited for, and the stores if they have the same counter: their widths, 0 for stores.
type vectorMemory struct {
	widths    []int
	storesToo bool
}

// next counts an instruction. A load is in flight until s_waitcnt, or until a jump that is always taken: what follows is then another way
// through the kernel. Loads and stores end in their order.
func (f *vectorMemory) next(k *Kernel, text string) error {
	operation, _, _ := strings.Cut(text, " ")
	k.Instructions++
	switch m := access.FindStringSubmatch(operation); {
	case m != nil && m[1] == "load":
		f.widths = append(f.widths, width(m[2]))
		k.count(slices.DeleteFunc(slices.Clone(f.widths), func(w int) bool { return w == 0 }), width(m[2]))
	case m != nil:
		k.StoreBytes = max(k.StoreBytes, width(m[2]))
		if f.storesToo {
			f.widths = append(f.widths, 0)
		}
	case others.MatchString(operation) && !caches.MatchString(operation):
		return fmt.Errorf("%s: the instruction %s", k.Name, text)
	case operation == "s_barrier":
		k.Barriers++
	case operation == "s_branch" || operation == "s_endpgm":
		f.widths = nil
	case operation == "s_waitcnt":
		if m := vmcnt.FindStringSubmatch(text); m != nil {
			left, err := strconv.Atoi(m[1])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", k.Name, text, err)
			}
			f.widths = f.widths[max(0, len(f.widths)-left):]
		}
	}
	return nil
}

// width returns how many bytes an instruction moves, by the end of its name.
func width(name string) int {
	switch name {
	case "ubyte", "sbyte", "byte":
		return 1
	case "ushort", "sshort", "short":
		return 2
	case "dword":
		return 4
	}
	if n, ok := strings.CutPrefix(name, "dwordx"); ok {
		words, _ := strconv.Atoi(n)
		return 4 * words
	}
	bits, _ := strconv.Atoi(name[1:]) // u8, i16 or b128
	return bits / 8
}
