#pragma clang diagnostic ignored "-Wmissing-prototypes"
#pragma clang diagnostic ignored "-Wmissing-braces"

#include <metal_stdlib>
#include <simd/simd.h>

using namespace metal;

template<typename T, size_t Num>
struct spvUnsafeArray
{
    T elements[Num ? Num : 1];
    
    thread T& operator [] (size_t pos) thread
    {
        return elements[pos];
    }
    constexpr const thread T& operator [] (size_t pos) const thread
    {
        return elements[pos];
    }
    
    device T& operator [] (size_t pos) device
    {
        return elements[pos];
    }
    constexpr const device T& operator [] (size_t pos) const device
    {
        return elements[pos];
    }
    
    constexpr const constant T& operator [] (size_t pos) const constant
    {
        return elements[pos];
    }
    
    threadgroup T& operator [] (size_t pos) threadgroup
    {
        return elements[pos];
    }
    constexpr const threadgroup T& operator [] (size_t pos) const threadgroup
    {
        return elements[pos];
    }
};

struct _82
{
    int _m0;
    int _m1;
    uint _m2;
    uint _m3;
    uint _m4;
    uint _m5;
    uint _m6[8];
    int _m7[8];
    int _m8[8];
};

struct _117
{
    uchar _m0[1];
};

struct _128
{
    uchar _m0[1];
};

struct _369
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

struct _518
{
    uint _m0[1];
};

static inline __attribute__((always_inline))
int _26(thread const int& _23, thread const uint& _24, thread const uint& _25, constant _82& v_84)
{
    return (_23 + (int(_24) * v_84._m7[0])) + (int(_25) * v_84._m7[1]);
}

static inline __attribute__((always_inline))
int _40(thread const int& _37, thread const uint& _38, thread const uint& _39, constant _82& v_84)
{
    int _141;
    if (v_84._m7[0] == 1)
    {
        int _144 = _37;
        uint _146 = 0u;
        uint _147 = _39;
        _141 = _26(_144, _146, _147, v_84) & 3;
    }
    else
    {
        _141 = 0;
    }
    return (int(_38) * 4) - _141;
}

static inline __attribute__((always_inline))
int _21(thread const int& _18, thread const uint& _19, thread const uint& _20, constant _82& v_84)
{
    return (_18 + (int(_19) * v_84._m8[0])) + (int(_20) * v_84._m8[1]);
}

static inline __attribute__((always_inline))
uint _30(thread const int& _29, const device _117& v_119)
{
    return uint(v_119._m0[_29]);
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 4>& _11)
{
    uint _47 = 0u;
    for (int _49 = 0; _49 < 4; _49++)
    {
        _47 |= (_11[_49] << (uint(_49) * 8u));
    }
    return _47;
}

static inline __attribute__((always_inline))
void _35(thread const int& _33, thread const uint& _34, device _128& v_130)
{
    v_130._m0[_33] = uchar(_34);
}

static inline __attribute__((always_inline))
void _45(thread const int& _43, thread const int& _44, constant _82& v_84, const device _117& v_119, device _128& v_130, thread uint3& gl_WorkGroupID, thread uint3& gl_LocalInvocationID, device _369& v_371, thread uint3& gl_NumWorkGroups)
{
    uint _157 = 8u - v_84._m3;
    uint _162 = v_84._m3 + v_84._m4;
    uint _174 = (_157 + 2u) - v_84._m4;
    uint _175 = (v_84._m6[0] + 6u) / 4u;
    int _182 = int(v_84._m6[0]) - 1;
    uint _203 = (gl_WorkGroupID.y << _174) + (gl_LocalInvocationID.x >> v_84._m3);
    spvUnsafeArray<spvUnsafeArray<uint, 4>, 4> _285;
    for (uint _168 = _174, _187 = _203; _187 < v_84._m6[1]; _187 += (gl_NumWorkGroups.y << _168))
    {
        uint _225 = (gl_WorkGroupID.x << _162) + (gl_LocalInvocationID.x & ((1u << v_84._m3) - 1u));
        for (uint _213 = _225; _213 < _175; _213 += (gl_NumWorkGroups.x << _162))
        {
            for (uint _234 = 0u; _234 < 4u; _234++)
            {
                uint _242 = _213 + ((_234 & ((1u << v_84._m4) - 1u)) << v_84._m3);
                uint _254 = min((_187 + ((_234 >> v_84._m4) << _157)), (v_84._m6[1] - 1u));
                int _268 = _43;
                uint _270 = _242;
                uint _272 = _254;
                int _267 = _40(_268, _270, _272, v_84);
                for (int _275 = 0; _275 < 4; _275++)
                {
                    int _294 = _44;
                    uint _296 = uint(clamp(_267 + _275, 0, _182));
                    uint _297 = _254;
                    int _300 = _21(_294, _296, _297, v_84);
                    _285[_234][_275] = _30(_300, v_119);
                }
            }
            for (uint _307 = 0u; _307 < 4u; _307++)
            {
                uint _315 = _213 + ((_307 & ((1u << v_84._m4) - 1u)) << v_84._m3);
                uint _327 = _187 + ((_307 >> v_84._m4) << _157);
                int _337 = _43;
                uint _339 = _315;
                uint _341 = _327;
                int _336 = _40(_337, _339, _341, v_84);
                if (_327 >= v_84._m6[1])
                {
                    continue;
                }
                bool _356 = (v_84._m7[0] == 1) && (_336 >= 0);
                bool _365;
                if (_356)
                {
                    _365 = (_336 + 4) <= int(v_84._m6[0]);
                }
                else
                {
                    _365 = _356;
                }
                if (_365)
                {
                    int _374 = _43;
                    uint _376 = uint(_336);
                    uint _377 = _327;
                    spvUnsafeArray<uint, 4> _382;
                    _382 = _285[_307];
                    v_371._m0[_26(_374, _376, _377, v_84) / 4] = _12(_382);
                    continue;
                }
                for (int _389 = 0; _389 < 4; _389++)
                {
                    bool _400 = (_336 + _389) >= 0;
                    bool _408;
                    if (_400)
                    {
                        _408 = (_336 + _389) <= _182;
                    }
                    else
                    {
                        _408 = _400;
                    }
                    if (_408)
                    {
                        int _415 = _43;
                        uint _417 = uint(_336 + _389);
                        uint _418 = _327;
                        int _423 = _26(_415, _417, _418, v_84);
                        uint _424 = _285[_307][_389];
                        _35(_423, _424, v_130);
                    }
                }
            }
        }
    }
}

kernel void gather1(constant _82& v_84 [[buffer(2)]], device void* spvBufferAliasSet0Binding0 [[buffer(0)]], const device _117& v_119 [[buffer(1)]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    device auto& v_130 = *(device _128*)spvBufferAliasSet0Binding0;
    device auto& v_371 = *(device _369*)spvBufferAliasSet0Binding0;
    for (uint _445 = gl_WorkGroupID.z; _445 < v_84._m2; _445 += gl_NumWorkGroups.z)
    {
        int _458 = v_84._m0;
        int _461 = v_84._m1;
        uint _464 = _445;
        for (int _466 = 2; (_466 < 8) && (_464 != 0u); _466++)
        {
            int _477 = int(_464 % v_84._m6[_466]);
            _464 /= v_84._m6[_466];
            _458 += (_477 * v_84._m7[_466]);
            _461 += (_477 * v_84._m8[_466]);
        }
        int _505 = _458;
        int _507 = _461;
        _45(_505, _507, v_84, v_119, v_130, gl_WorkGroupID, gl_LocalInvocationID, v_371, gl_NumWorkGroups);
    }
}

