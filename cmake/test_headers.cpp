// Carries the precompiled headers of all tests (FusionAttention.cmake) and does nothing.
int main() {
    return 0;
}
