// Package machinecode counts what kernels in machine code do with memory: a test, and a table, need no card. For NVIDIA's
// cards they need no disassembler either; for AMD's they use LLVM's.
//
// NVIDIA documents the names of instructions ("CUDA Binary Utilities", "Instruction Set Reference") but not their bits.
// The few that are read here are the same since Volta. They were compared with the output of nvdisasm 12.4 for sm_75,
// sm_80 and sm_90.
package machinecode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Kernel is what the code of a kernel does.
type Kernel struct {
	Name         string
	Instructions int // with those that only fill the section
	Registers    int // of a thread
	Shared       int // bytes of shared memory of a block
	Barriers     int // instructions that wait for all threads of the block
	Loads        int // from global memory, all of one width, where the most bytes of them are in flight
	LoadBytes    int // bytes of one of these loads
	StoreBytes   int // bytes of the widest store to global memory
}

// InFlight returns how many bytes a thread has in flight at the same time.
func (k Kernel) InFlight() int { return k.Loads * k.LoadBytes }

// count notes the widths of all loads that are in flight after a load of a width.
func (k *Kernel) count(loads []int, width int) {
	if more := len(loads)*width - k.InFlight(); slices.Min(loads) == slices.Max(loads) && (more > 0 || more == 0 && width > k.LoadBytes) {
		k.Loads, k.LoadBytes = len(loads), width
	}
}

// The lowest 9 bits of an instruction say what it does.
const (
	loadGlobal  = 0x181
	storeGlobal = 0x186
	barrier     = 0x11d
	branch      = 0x147
	exit        = 0x14d
)

// instruction is 128 bits of code.
type instruction struct{ low, high uint64 }

func (i instruction) operation() uint64 { return i.low & 0x1ff }

// always reports that no predicate decides whether the instruction is carried out.
func (i instruction) always() bool { return i.low>>12&15 == 7 }

// width is the number of bytes that a load or a store moves.
func (i instruction) width() int { return []int{1, 1, 2, 2, 4, 8, 16, 16}[i.high>>9&7] }

// sets is the scoreboard that the result of the instruction frees, 7 if none.
func (i instruction) sets() uint64 { return i.high >> 46 & 7 }

// awaits reports that the instruction waits for a scoreboard.
func (i instruction) awaits(board uint64) bool { return i.high>>52>>board&1 == 1 }

// Count returns the kernels of a cubin in the order of their names.
func Count(cubin string) ([]Kernel, error) {
	image := []byte(cubin)
	if len(image) > 20 {
		image[20] = byte(elf.EV_CURRENT) // e_version, where CUDA has a version of its own
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("machinecode: %w", err)
	}
	registers, err := registersOf(f)
	if err != nil {
		return nil, fmt.Errorf("machinecode: %w", err)
	}
	var kernels []Kernel
	for _, s := range f.Sections {
		name, ok := strings.CutPrefix(s.Name, ".text.")
		if !ok {
			continue
		}
		code, err := s.Data()
		if err != nil {
			return nil, fmt.Errorf("machinecode: %s: %w", s.Name, err)
		}
		k := count(code)
		k.Name, k.Registers = name, registers[name]
		if shared := f.Section(".nv.shared." + name); shared != nil {
			k.Shared = int(shared.Size)
		}
		kernels = append(kernels, k)
	}
	slices.SortFunc(kernels, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	return kernels, nil
}

// registersOf returns the registers of each kernel, from the attributes of the section .nv.info: a format, a number,
// and two bytes, which for format 4 are the size of what follows.
func registersOf(f *elf.File) (map[string]int, error) {
	const sized, registerCount = 4, 0x2f
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	info := f.Section(".nv.info")
	if info == nil {
		return nil, fmt.Errorf("no section .nv.info")
	}
	data, err := info.Data()
	if err != nil {
		return nil, err
	}
	registers := make(map[string]int)
	for len(data) >= 4 {
		format, attribute, size := data[0], data[1], int(binary.LittleEndian.Uint16(data[2:]))
		data = data[4:]
		if format != sized {
			continue
		}
		if size > len(data) {
			return nil, fmt.Errorf("an attribute of %d bytes, %d are left", size, len(data))
		}
		if attribute == registerCount && size == 8 {
			// Symbols leaves out symbol 0.
			if i := int(binary.LittleEndian.Uint32(data)) - 1; i >= 0 && i < len(symbols) {
				registers[symbols[i].Name] = int(binary.LittleEndian.Uint32(data[4:]))
			}
		}
		data = data[size:]
	}
	return registers, nil
}

// count goes through the code in its order. A load is in flight until an instruction waits for its scoreboard, or until
// a jump that is always taken: what follows is then another way through the kernel.
func count(code []byte) Kernel {
	var k Kernel
	var flying [8][]int // the widths of loads, by scoreboard
	for ; len(code) >= 16; code = code[16:] {
		i := instruction{binary.LittleEndian.Uint64(code), binary.LittleEndian.Uint64(code[8:])}
		k.Instructions++
		for board := range flying[:6] {
			if i.awaits(uint64(board)) {
				flying[board] = flying[board][:0]
			}
		}
		switch i.operation() {
		case loadGlobal:
			flying[i.sets()] = append(flying[i.sets()], i.width())
			k.count(slices.Concat(flying[:]...), i.width())
		case storeGlobal:
			k.StoreBytes = max(k.StoreBytes, i.width())
		case barrier:
			k.Barriers++
		case branch, exit:
			if i.always() {
				flying = [8][]int{}
			}
		}
	}
	return k
}
