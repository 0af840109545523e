# Lets programs find the drivers of this machine. It is drivers.sh of the kit that make gpu-kit builds, which its other
# scripts read, with two variables: kit, the folder of the kit, and work, an empty folder, which must be the current
# one. The array brought names what the kit brings, because the system has NVIDIA's driver but lacks it.

# Users other than root often have no /sbin in PATH.
libraries=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p) || exit 2
any() { for file; do [ ! -e "$file" ] || return 0; done; return 1; }
installed() {
  local folders=()
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  grep -q "^[[:space:]]*$1 .*x86-64" <<<"$libraries" || any "${folders[@]/%//$1}"
}
brought=()
# Machines that mount the driver into containers do not always tell the loader where.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /run/opengl-driver/lib /usr/lib/wsl/lib; do
  if [ -e "$folder/libcuda.so.1" ] && ! installed libcuda.so.1; then
    export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    brought+=("the path $folder")
  fi
done
mkdir "$work/lib"
for library in "$kit"/lib/*; do
  if ! installed "${library##*/}"; then
    ln -s "$library" "$work/lib/"
    brought+=("${library##*/}")
  fi
done
export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

if installed libEGL_nvidia.so.0; then
  # libGLX_nvidia.so.0, which the files of the system name, needs X11. The same driver is in libEGL_nvidia.so.0.
  if [ -z "${VK_DRIVER_FILES:-}" ] && { ! installed libX11.so.6 || ! any {/usr/share,/usr/local/share,/etc}/vulkan/icd.d/*nvidia*; }; then
    echo '{"file_format_version": "1.0.1", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.3.0"}}' >nvidia_icd.json
    export VK_DRIVER_FILES=$work/nvidia_icd.json VK_ICD_FILENAMES=$work/nvidia_icd.json
    brought+=(nvidia_icd.json)
  fi
  if [ -z "${__EGL_VENDOR_LIBRARY_FILENAMES:-}" ] && ! any {/usr/share,/usr/local/share,/etc}/glvnd/egl_vendor.d/*nvidia*; then
    echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' >10_nvidia.json
    export __EGL_VENDOR_LIBRARY_FILENAMES=$work/10_nvidia.json
    brought+=(10_nvidia.json)
  fi
fi
if [ -z "${OCL_ICD_VENDORS:-}" ] && installed libnvidia-opencl.so.1 && ! any /etc/OpenCL/vendors/nvidia*; then
  mkdir vendors
  echo libnvidia-opencl.so.1 >vendors/nvidia.icd
  export OCL_ICD_VENDORS=$work/vendors
  brought+=(nvidia.icd)
fi
