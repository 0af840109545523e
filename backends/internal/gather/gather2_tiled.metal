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

struct _106
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

struct _141
{
    ushort _m0[1];
};

struct _152
{
    ushort _m0[1];
};

struct _216
{
    uint _m0[1];
};

struct _392
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
int _26(thread const int& _23, thread const uint& _24, thread const uint& _25, constant _106& v_108)
{
    return (_23 + (int(_24) * v_108._m8[0])) + (int(_25) * v_108._m8[1]);
}

static inline __attribute__((always_inline))
uint _35(thread const int& _34, const device _141& v_143)
{
    return uint(v_143._m0[_34]);
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 2>& _11)
{
    uint _62 = 0u;
    for (int _64 = 0; _64 < 2; _64++)
    {
        _62 |= (_11[_64] << (uint(_64) * 16u));
    }
    return _62;
}

static inline __attribute__((always_inline))
uint _20(thread const uint& _18, thread const int& _19)
{
    return (_18 >> (uint(_19) * 16u)) & 65535u;
}

static inline __attribute__((always_inline))
void _49(thread const int& _45, thread const uint& _46, thread const uint& _47, thread const bool& _48, constant _106& v_108, const device _141& v_143, thread uint3& gl_LocalInvocationID, const device _216& v_218, threadgroup uint (&v_320)[2][32][33])
{
    uint _159 = gl_LocalInvocationID.x / 32u;
    uint _168 = gl_LocalInvocationID.x % 32u;
    spvUnsafeArray<spvUnsafeArray<uint, 2>, 4> _212;
    spvUnsafeArray<uint, 2> _240;
    for (int _172 = 0; _172 < 4; _172++)
    {
        for (int _181 = 0; _181 < 2; _181++)
        {
            uint _189 = (_46 + ((_159 + (uint(_172) * 8u)) * 2u)) + uint(_181);
            uint _201 = _47 + (_168 * 2u);
            if (_48)
            {
                int _219 = _45;
                uint _221 = _189;
                uint _223 = _201;
                _212[_172][_181] = v_218._m0[_26(_219, _221, _223, v_108) / 2];
                continue;
            }
            for (int _232 = 0; _232 < 2; _232++)
            {
                int _258 = _45;
                uint _260 = min(_189, (v_108._m6[0] - 1u));
                uint _261 = min((_201 + uint(_232)), (v_108._m6[1] - 1u));
                int _263 = _26(_258, _260, _261, v_108);
                _240[_232] = _35(_263, v_143);
            }
            spvUnsafeArray<uint, 2> _270;
            _270 = _240;
            _212[_172][_181] = _12(_270);
        }
    }
    spvUnsafeArray<uint, 2> _302;
    for (int _278 = 0; _278 < 4; _278++)
    {
        for (int _286 = 0; _286 < 2; _286++)
        {
            for (int _294 = 0; _294 < 2; _294++)
            {
                uint _306 = _212[_278][_294];
                int _309 = _286;
                _302[_294] = _20(_306, _309);
            }
            spvUnsafeArray<uint, 2> _328;
            _328 = _302;
            v_320[_286][_159 + (uint(_278) * 8u)][_168] = _12(_328);
        }
    }
}

static inline __attribute__((always_inline))
int _31(thread const int& _28, thread const uint& _29, thread const uint& _30, constant _106& v_108)
{
    return (_28 + (int(_29) * v_108._m7[0])) + (int(_30) * v_108._m7[1]);
}

static inline __attribute__((always_inline))
void _40(thread const int& _38, thread const uint& _39, device _152& v_154)
{
    v_154._m0[_38] = ushort(_39);
}

static inline __attribute__((always_inline))
void _55(thread const int& _51, thread const uint& _52, thread const uint& _53, thread const bool& _54, constant _106& v_108, device _152& v_154, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_320)[2][32][33], device _392& v_394)
{
    uint _337 = gl_LocalInvocationID.x % 32u;
    uint _341 = gl_LocalInvocationID.x / 32u;
    for (int _345 = 0; _345 < 4; _345++)
    {
        for (int _353 = 0; _353 < 2; _353++)
        {
            uint _361 = _52 + (_337 * 2u);
            uint _366 = (_53 + ((_341 + (uint(_345) * 8u)) * 2u)) + uint(_353);
            uint _378 = v_320[_353][_337][_341 + (uint(_345) * 8u)];
            if (_54)
            {
                int _395 = _51;
                uint _397 = _361;
                uint _399 = _366;
                v_394._m0[_31(_395, _397, _399, v_108) / 2] = _378;
                continue;
            }
            for (int _406 = 0; _406 < 2; _406++)
            {
                bool _420 = (_361 + uint(_406)) < v_108._m6[0];
                bool _427;
                if (_420)
                {
                    _427 = _366 < v_108._m6[1];
                }
                else
                {
                    _427 = _420;
                }
                if (_427)
                {
                    int _434 = _51;
                    uint _436 = _361 + uint(_406);
                    uint _437 = _366;
                    uint _440 = _378;
                    int _442 = _406;
                    int _445 = _31(_434, _436, _437, v_108);
                    uint _446 = _20(_440, _442);
                    _40(_445, _446, v_154);
                }
            }
        }
    }
}

static inline __attribute__((always_inline))
void _60(thread const int& _58, thread const int& _59, constant _106& v_108, const device _141& v_143, device _152& v_154, thread uint3& gl_LocalInvocationID, const device _216& v_218, threadgroup uint (&v_320)[2][32][33], device _392& v_394, thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _459 = gl_WorkGroupID.y * 64u;
    for (uint _454 = _459; _454 < v_108._m6[1]; _454 += (gl_NumWorkGroups.y * 64u))
    {
        uint _472 = gl_WorkGroupID.x * 64u;
        for (uint _469 = _472; _469 < v_108._m6[0]; _469 += (gl_NumWorkGroups.x * 64u))
        {
            bool _490;
            if (true)
            {
                _490 = v_108._m5 != 0u;
            }
            else
            {
                _490 = true;
            }
            bool _498;
            if (_490)
            {
                _498 = (_469 + 64u) <= v_108._m6[0];
            }
            else
            {
                _498 = _490;
            }
            bool _506;
            if (_498)
            {
                _506 = (_454 + 64u) <= v_108._m6[1];
            }
            else
            {
                _506 = _498;
            }
            bool _482 = _506;
            if (_482)
            {
                int _510 = _59;
                uint _512 = _469;
                uint _514 = _454;
                bool _516 = true;
                _49(_510, _512, _514, _516, v_108, v_143, gl_LocalInvocationID, v_218, v_320);
            }
            else
            {
                int _520 = _59;
                uint _522 = _469;
                uint _524 = _454;
                bool _526 = false;
                _49(_520, _522, _524, _526, v_108, v_143, gl_LocalInvocationID, v_218, v_320);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (_482)
            {
                int _532 = _58;
                uint _534 = _469;
                uint _536 = _454;
                bool _538 = true;
                _55(_532, _534, _536, _538, v_108, v_154, gl_LocalInvocationID, v_320, v_394);
            }
            else
            {
                int _541 = _58;
                uint _543 = _469;
                uint _545 = _454;
                bool _547 = false;
                _55(_541, _543, _545, _547, v_108, v_154, gl_LocalInvocationID, v_320, v_394);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
}

kernel void gather2_tiled(constant _106& v_108 [[buffer(2)]], device void* spvBufferAliasSet0Binding0 [[buffer(0)]], const device void* spvBufferAliasSet0Binding1 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    device auto& v_154 = *(device _152*)spvBufferAliasSet0Binding0;
    const device auto& v_143 = *(const device _141*)spvBufferAliasSet0Binding1;
    const device auto& v_218 = *(const device _216*)spvBufferAliasSet0Binding1;
    device auto& v_394 = *(device _392*)spvBufferAliasSet0Binding0;
    threadgroup uint v_320[2][32][33];
    for (uint _560 = gl_WorkGroupID.z; _560 < v_108._m2; _560 += gl_NumWorkGroups.z)
    {
        int _572 = v_108._m0;
        int _575 = v_108._m1;
        uint _578 = _560;
        for (int _580 = 2; (_580 < 8) && (_578 != 0u); _580++)
        {
            int _591 = int(_578 % v_108._m6[_580]);
            _578 /= v_108._m6[_580];
            _572 += (_591 * v_108._m7[_580]);
            _575 += (_591 * v_108._m8[_580]);
        }
        int _619 = _572;
        int _621 = _575;
        _60(_619, _621, v_108, v_143, v_154, gl_LocalInvocationID, v_218, v_320, v_394, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

