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

struct _79
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

struct _114
{
    uint2 _m0[1];
};

struct _127
{
    uint2 _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
int _28(thread const int& _25, thread const uint& _26, thread const uint& _27, constant _79& v_81)
{
    return (_25 + (int(_26) * v_81._m8[0])) + (int(_27) * v_81._m8[1]);
}

static inline __attribute__((always_inline))
uint2 _37(thread const int& _36, const device _114& v_116)
{
    return uint2(v_116._m0[_36]);
}

static inline __attribute__((always_inline))
uint2 _13(thread const spvUnsafeArray<uint2, 1>& _12)
{
    return _12[0];
}

static inline __attribute__((always_inline))
uint2 _21(thread const uint2& _19, thread const int& _20)
{
    return _19;
}

static inline __attribute__((always_inline))
void _51(thread const int& _47, thread const uint& _48, thread const uint& _49, thread const bool& _50, constant _79& v_81, const device _114& v_116, thread uint3& gl_LocalInvocationID, threadgroup uint2 (&v_295)[1][32][33])
{
    uint _136 = gl_LocalInvocationID.x / 32u;
    uint _146 = gl_LocalInvocationID.x % 32u;
    spvUnsafeArray<spvUnsafeArray<uint2, 1>, 4> _190;
    spvUnsafeArray<uint2, 1> _216;
    for (int _150 = 0; _150 < 4; _150++)
    {
        for (int _159 = 0; _159 < 1; _159++)
        {
            uint _167 = (_48 + ((_136 + (uint(_150) * 8u)) * 1u)) + uint(_159);
            uint _179 = _49 + (_146 * 1u);
            if (_50)
            {
                int _193 = _47;
                uint _195 = _167;
                uint _197 = _179;
                _190[_150][_159] = uint2(v_116._m0[_28(_193, _195, _197, v_81) / 1]);
                continue;
            }
            for (int _208 = 0; _208 < 1; _208++)
            {
                int _233 = _47;
                uint _235 = min(_167, (v_81._m6[0] - 1u));
                uint _236 = min((_179 + uint(_208)), (v_81._m6[1] - 1u));
                int _238 = _28(_233, _235, _236, v_81);
                _216[_208] = _37(_238, v_116);
            }
            spvUnsafeArray<uint2, 1> _245;
            _245 = _216;
            _190[_150][_159] = _13(_245);
        }
    }
    spvUnsafeArray<uint2, 1> _277;
    for (int _253 = 0; _253 < 4; _253++)
    {
        for (int _261 = 0; _261 < 1; _261++)
        {
            for (int _269 = 0; _269 < 1; _269++)
            {
                uint2 _281 = _190[_253][_269];
                int _284 = _261;
                _277[_269] = _21(_281, _284);
            }
            spvUnsafeArray<uint2, 1> _303;
            _303 = _277;
            v_295[_261][_136 + (uint(_253) * 8u)][_146] = _13(_303);
        }
    }
}

static inline __attribute__((always_inline))
int _33(thread const int& _30, thread const uint& _31, thread const uint& _32, constant _79& v_81)
{
    return (_30 + (int(_31) * v_81._m7[0])) + (int(_32) * v_81._m7[1]);
}

static inline __attribute__((always_inline))
void _42(thread const int& _40, thread const uint2& _41, device _127& v_129)
{
    v_129._m0[_40] = uint2(_41);
}

static inline __attribute__((always_inline))
void _57(thread const int& _53, thread const uint& _54, thread const uint& _55, thread const bool& _56, constant _79& v_81, device _127& v_129, thread uint3& gl_LocalInvocationID, threadgroup uint2 (&v_295)[1][32][33])
{
    uint _312 = gl_LocalInvocationID.x % 32u;
    uint _316 = gl_LocalInvocationID.x / 32u;
    for (int _320 = 0; _320 < 4; _320++)
    {
        for (int _328 = 0; _328 < 1; _328++)
        {
            uint _336 = _54 + (_312 * 1u);
            uint _341 = (_55 + ((_316 + (uint(_320) * 8u)) * 1u)) + uint(_328);
            uint2 _353 = v_295[_328][_312][_316 + (uint(_320) * 8u)];
            if (_56)
            {
                int _366 = _53;
                uint _368 = _336;
                uint _370 = _341;
                v_129._m0[_33(_366, _368, _370, v_81) / 1] = _353;
                continue;
            }
            for (int _377 = 0; _377 < 1; _377++)
            {
                bool _391 = (_336 + uint(_377)) < v_81._m6[0];
                bool _398;
                if (_391)
                {
                    _398 = _341 < v_81._m6[1];
                }
                else
                {
                    _398 = _391;
                }
                if (_398)
                {
                    int _405 = _53;
                    uint _407 = _336 + uint(_377);
                    uint _408 = _341;
                    uint2 _411 = _353;
                    int _413 = _377;
                    int _416 = _33(_405, _407, _408, v_81);
                    uint2 _417 = _21(_411, _413);
                    _42(_416, _417, v_129);
                }
            }
        }
    }
}

static inline __attribute__((always_inline))
void _62(thread const int& _60, thread const int& _61, constant _79& v_81, const device _114& v_116, device _127& v_129, thread uint3& gl_LocalInvocationID, threadgroup uint2 (&v_295)[1][32][33], thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _429 = gl_WorkGroupID.y * 32u;
    for (uint _425 = _429; _425 < v_81._m6[1]; _425 += (gl_NumWorkGroups.y * 32u))
    {
        uint _442 = gl_WorkGroupID.x * 32u;
        for (uint _439 = _442; _439 < v_81._m6[0]; _439 += (gl_NumWorkGroups.x * 32u))
        {
            bool _460;
            if (false)
            {
                _460 = v_81._m5 != 0u;
            }
            else
            {
                _460 = false;
            }
            bool _468;
            if (_460)
            {
                _468 = (_439 + 32u) <= v_81._m6[0];
            }
            else
            {
                _468 = _460;
            }
            bool _476;
            if (_468)
            {
                _476 = (_425 + 32u) <= v_81._m6[1];
            }
            else
            {
                _476 = _468;
            }
            bool _452 = _476;
            if (_452)
            {
                int _481 = _61;
                uint _483 = _439;
                uint _485 = _425;
                bool _487 = true;
                _51(_481, _483, _485, _487, v_81, v_116, gl_LocalInvocationID, v_295);
            }
            else
            {
                int _490 = _61;
                uint _492 = _439;
                uint _494 = _425;
                bool _496 = false;
                _51(_490, _492, _494, _496, v_81, v_116, gl_LocalInvocationID, v_295);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (_452)
            {
                int _503 = _60;
                uint _505 = _439;
                uint _507 = _425;
                bool _509 = true;
                _57(_503, _505, _507, _509, v_81, v_129, gl_LocalInvocationID, v_295);
            }
            else
            {
                int _512 = _60;
                uint _514 = _439;
                uint _516 = _425;
                bool _518 = false;
                _57(_512, _514, _516, _518, v_81, v_129, gl_LocalInvocationID, v_295);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
}

kernel void gather8_tiled(constant _79& v_81 [[buffer(2)]], device _127& v_129 [[buffer(0)]], const device _114& v_116 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    threadgroup uint2 v_295[1][32][33];
    for (uint _531 = gl_WorkGroupID.z; _531 < v_81._m2; _531 += gl_NumWorkGroups.z)
    {
        int _544 = v_81._m0;
        int _547 = v_81._m1;
        uint _550 = _531;
        for (int _552 = 2; (_552 < 8) && (_550 != 0u); _552++)
        {
            int _563 = int(_550 % v_81._m6[_552]);
            _550 /= v_81._m6[_552];
            _544 += (_563 * v_81._m7[_552]);
            _547 += (_563 * v_81._m8[_552]);
        }
        int _591 = _544;
        int _593 = _547;
        _62(_591, _593, v_81, v_116, v_129, gl_LocalInvocationID, v_295, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

