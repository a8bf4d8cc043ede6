// One instruction of AVX, for the tests under emulated processors that lack it.
int main(int count, char** arguments) {
    __asm__ volatile("vxorps %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    return 0;
}
