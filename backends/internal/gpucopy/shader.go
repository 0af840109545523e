package gpucopy

import (
	"embed"
	"encoding/binary"
	"fmt"
	"strings"
)

// Shader names one variant of the shader. It can be the key of a cache of pipelines.
type Shader struct {
	Word   uint8 // bytes: 1, 2, 4, 8 or 16
	Packed bool  // words of 1 or 2 bytes in buffers of uint
	Tiled  bool  // through shared memory, for a plane that is transposed
	// Channels is through shared memory, for a plane of a few channels. On one side the channels of a pixel lie side
	// by side, as in NHWC; on the other side the pixels of a channel do.
	Channels bool
}

// maxWord is the largest word.
const maxWord = 16

// Shaders returns all variants that [Plan] may use without [Limits.PackedTiles].
func Shaders() []Shader {
	return []Shader{
		{Word: 1}, {Word: 2}, {Word: 4}, {Word: 8}, {Word: 16},
		{Word: 1, Packed: true}, {Word: 2, Packed: true},
		{Word: 1, Tiled: true}, {Word: 2, Tiled: true}, {Word: 4, Tiled: true}, {Word: 8, Tiled: true},
		{Word: 1, Channels: true}, {Word: 2, Channels: true}, {Word: 4, Channels: true}, {Word: 8, Channels: true},
	}
}

// String returns a name such as "gather4_tiled": that of the file of its SPIR-V, and of its entry in the PTX.
func (s Shader) String() string {
	name := fmt.Sprintf("gather%d", s.Word)
	if s.Packed {
		name += "_packed"
	}
	if s.Tiled {
		name += "_tiled"
	}
	if s.Channels {
		name += "_channels"
	}
	return name
}

var (
	//go:embed gather.comp
	source string
	//go:embed *.spv
	binaries embed.FS
)

// GLSL returns the source of the shader, for OpenGL 4.3 or for a compiler to SPIR-V. OpenGL has no 8 and 16
// bit storage, so words below 4 bytes must be packed.
func (s Shader) GLSL() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#version 430\n#define AXES %d\n#define WORD %d\n", MaxAxes, s.Word)
	if s.Packed {
		b.WriteString("#define PACKED\n")
	}
	if s.Tiled {
		b.WriteString("#define TILED\n")
	}
	if s.Channels {
		b.WriteString("#define CHANNELS\n")
	}
	b.WriteString(source)
	return b.String()
}

// SPIRV returns the compiled shader, which needs Vulkan 1.1. Its entry point is "main". It is nil for a
// Shader that is not one of [Shaders].
func (s Shader) SPIRV() []uint32 {
	code, err := binaries.ReadFile(s.String() + ".spv")
	if err != nil {
		return nil
	}
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	return words
}
