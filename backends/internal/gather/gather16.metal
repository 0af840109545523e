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

struct _49
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

struct _85
{
    uint4 _m0[1];
};

struct _100
{
    uint4 _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
int _19(thread const int& _16, thread const uint& _17, thread const uint& _18, constant _49& v_51)
{
    return (_16 + (int(_17) * v_51._m7[0])) + (int(_18) * v_51._m7[1]);
}

static inline __attribute__((always_inline))
int _35(thread const int& _32, thread const uint& _33, thread const uint& _34, constant _49& v_51)
{
    int _118;
    if (v_51._m7[0] == 1)
    {
        int _122 = _32;
        uint _124 = 0u;
        uint _125 = _34;
        _118 = _19(_122, _124, _125, v_51) & 0;
    }
    else
    {
        _118 = 0;
    }
    return (int(_33) * 1) - _118;
}

static inline __attribute__((always_inline))
int _14(thread const int& _11, thread const uint& _12, thread const uint& _13, constant _49& v_51)
{
    return (_11 + (int(_12) * v_51._m8[0])) + (int(_13) * v_51._m8[1]);
}

static inline __attribute__((always_inline))
uint4 _24(thread const int& _23, const device _85& v_87)
{
    return uint4(v_87._m0[_23]);
}

static inline __attribute__((always_inline))
void _30(thread const int& _28, thread const uint4& _29, device _100& v_102)
{
    v_102._m0[_28] = uint4(_29);
}

static inline __attribute__((always_inline))
void _40(thread const int& _38, thread const int& _39, constant _49& v_51, const device _85& v_87, device _100& v_102, thread uint3& gl_WorkGroupID, thread uint3& gl_LocalInvocationID, thread uint3& gl_NumWorkGroups)
{
    uint _134 = 8u - v_51._m3;
    uint _140 = v_51._m3 + v_51._m4;
    uint _153 = (_134 + 2u) - v_51._m4;
    uint _154 = (v_51._m6[0] + 0u) / 1u;
    int _161 = int(v_51._m6[0]) - 1;
    uint _181 = (gl_WorkGroupID.y << _153) + (gl_LocalInvocationID.x >> v_51._m3);
    spvUnsafeArray<spvUnsafeArray<uint4, 1>, 4> _265;
    for (uint _147 = _153, _166 = _181; _166 < v_51._m6[1]; _166 += (gl_NumWorkGroups.y << _147))
    {
        uint _203 = (gl_WorkGroupID.x << _140) + (gl_LocalInvocationID.x & ((1u << v_51._m3) - 1u));
        for (uint _191 = _203; _191 < _154; _191 += (gl_NumWorkGroups.x << _140))
        {
            for (uint _212 = 0u; _212 < 4u; _212++)
            {
                uint _221 = _191 + ((_212 & ((1u << v_51._m4) - 1u)) << v_51._m3);
                uint _233 = min((_166 + ((_212 >> v_51._m4) << _134)), (v_51._m6[1] - 1u));
                int _247 = _38;
                uint _249 = _221;
                uint _251 = _233;
                int _246 = _35(_247, _249, _251, v_51);
                for (int _254 = 0; _254 < 1; _254++)
                {
                    int _274 = _39;
                    uint _276 = uint(clamp(_246 + _254, 0, _161));
                    uint _277 = _233;
                    int _280 = _14(_274, _276, _277, v_51);
                    _265[_212][_254] = _24(_280, v_87);
                }
            }
            for (uint _287 = 0u; _287 < 4u; _287++)
            {
                uint _295 = _191 + ((_287 & ((1u << v_51._m4) - 1u)) << v_51._m3);
                uint _307 = _166 + ((_287 >> v_51._m4) << _134);
                int _317 = _38;
                uint _319 = _295;
                uint _321 = _307;
                int _316 = _35(_317, _319, _321, v_51);
                if (_307 >= v_51._m6[1])
                {
                    continue;
                }
                for (int _331 = 0; _331 < 1; _331++)
                {
                    bool _342 = (_316 + _331) >= 0;
                    bool _350;
                    if (_342)
                    {
                        _350 = (_316 + _331) <= _161;
                    }
                    else
                    {
                        _350 = _342;
                    }
                    if (_350)
                    {
                        int _357 = _38;
                        uint _359 = uint(_316 + _331);
                        uint _360 = _307;
                        int _365 = _19(_357, _359, _360, v_51);
                        uint4 _366 = _265[_287][_331];
                        _30(_365, _366, v_102);
                    }
                }
            }
        }
    }
}

kernel void gather16(constant _49& v_51 [[buffer(2)]], device _100& v_102 [[buffer(0)]], const device _85& v_87 [[buffer(1)]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    for (uint _387 = gl_WorkGroupID.z; _387 < v_51._m2; _387 += gl_NumWorkGroups.z)
    {
        int _400 = v_51._m0;
        int _403 = v_51._m1;
        uint _406 = _387;
        for (int _408 = 2; (_408 < 8) && (_406 != 0u); _408++)
        {
            int _419 = int(_406 % v_51._m6[_408]);
            _406 /= v_51._m6[_408];
            _400 += (_419 * v_51._m7[_408]);
            _403 += (_419 * v_51._m8[_408]);
        }
        int _447 = _400;
        int _449 = _403;
        _40(_447, _449, v_51, v_87, v_102, gl_WorkGroupID, gl_LocalInvocationID, gl_NumWorkGroups);
    }
}

