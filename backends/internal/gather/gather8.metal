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
    uint2 _m0[1];
};

struct _98
{
    uint2 _m0[1];
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
    int _114;
    if (v_51._m7[0] == 1)
    {
        int _118 = _32;
        uint _120 = 0u;
        uint _121 = _34;
        _114 = _19(_118, _120, _121, v_51) & 0;
    }
    else
    {
        _114 = 0;
    }
    return (int(_33) * 1) - _114;
}

static inline __attribute__((always_inline))
int _14(thread const int& _11, thread const uint& _12, thread const uint& _13, constant _49& v_51)
{
    return (_11 + (int(_12) * v_51._m8[0])) + (int(_13) * v_51._m8[1]);
}

static inline __attribute__((always_inline))
uint2 _24(thread const int& _23, const device _85& v_87)
{
    return uint2(v_87._m0[_23]);
}

static inline __attribute__((always_inline))
void _30(thread const int& _28, thread const uint2& _29, device _98& v_100)
{
    v_100._m0[_28] = uint2(_29);
}

static inline __attribute__((always_inline))
void _40(thread const int& _38, thread const int& _39, constant _49& v_51, const device _85& v_87, device _98& v_100, thread uint3& gl_WorkGroupID, thread uint3& gl_LocalInvocationID, thread uint3& gl_NumWorkGroups)
{
    uint _130 = 8u - v_51._m3;
    uint _136 = v_51._m3 + v_51._m4;
    uint _149 = (_130 + 2u) - v_51._m4;
    uint _150 = (v_51._m6[0] + 0u) / 1u;
    int _157 = int(v_51._m6[0]) - 1;
    uint _177 = (gl_WorkGroupID.y << _149) + (gl_LocalInvocationID.x >> v_51._m3);
    spvUnsafeArray<spvUnsafeArray<uint2, 1>, 4> _261;
    for (uint _143 = _149, _162 = _177; _162 < v_51._m6[1]; _162 += (gl_NumWorkGroups.y << _143))
    {
        uint _199 = (gl_WorkGroupID.x << _136) + (gl_LocalInvocationID.x & ((1u << v_51._m3) - 1u));
        for (uint _187 = _199; _187 < _150; _187 += (gl_NumWorkGroups.x << _136))
        {
            for (uint _208 = 0u; _208 < 4u; _208++)
            {
                uint _217 = _187 + ((_208 & ((1u << v_51._m4) - 1u)) << v_51._m3);
                uint _229 = min((_162 + ((_208 >> v_51._m4) << _130)), (v_51._m6[1] - 1u));
                int _243 = _38;
                uint _245 = _217;
                uint _247 = _229;
                int _242 = _35(_243, _245, _247, v_51);
                for (int _250 = 0; _250 < 1; _250++)
                {
                    int _270 = _39;
                    uint _272 = uint(clamp(_242 + _250, 0, _157));
                    uint _273 = _229;
                    int _276 = _14(_270, _272, _273, v_51);
                    _261[_208][_250] = _24(_276, v_87);
                }
            }
            for (uint _283 = 0u; _283 < 4u; _283++)
            {
                uint _291 = _187 + ((_283 & ((1u << v_51._m4) - 1u)) << v_51._m3);
                uint _303 = _162 + ((_283 >> v_51._m4) << _130);
                int _313 = _38;
                uint _315 = _291;
                uint _317 = _303;
                int _312 = _35(_313, _315, _317, v_51);
                if (_303 >= v_51._m6[1])
                {
                    continue;
                }
                for (int _327 = 0; _327 < 1; _327++)
                {
                    bool _338 = (_312 + _327) >= 0;
                    bool _346;
                    if (_338)
                    {
                        _346 = (_312 + _327) <= _157;
                    }
                    else
                    {
                        _346 = _338;
                    }
                    if (_346)
                    {
                        int _353 = _38;
                        uint _355 = uint(_312 + _327);
                        uint _356 = _303;
                        int _361 = _19(_353, _355, _356, v_51);
                        uint2 _362 = _261[_283][_327];
                        _30(_361, _362, v_100);
                    }
                }
            }
        }
    }
}

kernel void gather8(constant _49& v_51 [[buffer(2)]], device _98& v_100 [[buffer(0)]], const device _85& v_87 [[buffer(1)]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    for (uint _383 = gl_WorkGroupID.z; _383 < v_51._m2; _383 += gl_NumWorkGroups.z)
    {
        int _396 = v_51._m0;
        int _399 = v_51._m1;
        uint _402 = _383;
        for (int _404 = 2; (_404 < 8) && (_402 != 0u); _404++)
        {
            int _415 = int(_402 % v_51._m6[_404]);
            _402 /= v_51._m6[_404];
            _396 += (_415 * v_51._m7[_404]);
            _399 += (_415 * v_51._m8[_404]);
        }
        int _443 = _396;
        int _445 = _399;
        _40(_443, _445, v_51, v_87, v_100, gl_WorkGroupID, gl_LocalInvocationID, gl_NumWorkGroups);
    }
}

