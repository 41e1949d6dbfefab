/* entries.cpp - which entry of a folder's .ptx files an emulated kernel is: its
 * symbol, and the source file that has it, are looked up in the program itself.
 */
#include "program.h"

#include <cxxabi.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace ptx {

namespace {

struct entry {
    const char *text, *file;
    int line;
};

/* As C++ writes it, with the names that numbers of 16 bits have in dev.h. */
std::string plain_name(const std::string &symbol)
{
    int status;
    char *name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string s = status == 0 ? name : symbol;

    free(name);
    for (const auto &[from, to] :
         { std::pair<const char *, const char *>{ "__nv_bfloat16", "bf16" },
           { "__half", "fp16" } })
        for (size_t at; (at = s.find(from)) != std::string::npos;)
            s.replace(at, strlen(from), to);
    return s;
}

std::string stem_of(const std::string &file)
{
    const size_t slash = file.rfind('/');
    const std::string name =
        slash == std::string::npos ? file : file.substr(slash + 1);

    return name.substr(0, name.find('.'));
}

/* --- what there is in PTX ------------------------------------------------- */

struct library {
    std::list<std::string> files, texts; /* stay where they are */
    std::map<std::pair<std::string, std::string>, entry> entries;
    std::map<const void *, std::unique_ptr<program>> programs;
    std::mutex lock;

    void read_file(const std::string &path)
    {
        std::ifstream in(path);
        int line = 1;

        files.push_back(path);
        texts.emplace_back(std::istreambuf_iterator<char>(in),
                           std::istreambuf_iterator<char>());
        const char *text = texts.back().c_str(), *at = text, *from = text;

        while ((at = strstr(at, ".entry ")) != nullptr) {
            const char *name = at + strlen(".entry ");

            line += (int)std::count(from, at, '\n');
            from = at;
            entries[{ stem_of(path), plain_name(std::string(
                                         name, strcspn(name, "( \n"))) }] = {
                at, files.back().c_str(), line
            };
            at = name;
        }
    }
    void read_folder(const char *folder)
    {
        DIR *dir = opendir(folder);

        if (dir == nullptr)
            throw unknown(std::string(folder) + ": " + strerror(errno));
        while (const dirent *d = readdir(dir)) {
            const std::string name = d->d_name;

            if (name.size() > 4 && name.substr(name.size() - 4) == ".ptx")
                read_file(std::string(folder) + "/" + name);
        }
        closedir(dir);
    }
};

/* --- what there is in this program ---------------------------------------- */

struct object {
    uintptr_t address, base;
    std::string path;
};

int find_object(dl_phdr_info *info, size_t, void *user)
{
    object *o = (object *)user;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &h = info->dlpi_phdr[i];

        if (h.p_type == PT_LOAD &&
            o->address - info->dlpi_addr - h.p_vaddr < h.p_memsz) {
            o->base = info->dlpi_addr;
            o->path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
            return 1;
        }
    }
    return 0;
}

/* The names of local functions follow that of their source file. */
std::pair<std::string, std::string> find_symbol(const char *image,
                                                uintptr_t value)
{
    const auto *head = (const ElfW(Ehdr) *)image;
    const auto *sections = (const ElfW(Shdr) *)(image + head->e_shoff);

    for (unsigned s = 0; s < head->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB)
            continue;
        const auto *symbols =
            (const ElfW(Sym) *)(image + sections[s].sh_offset);
        const char *names = image + sections[sections[s].sh_link].sh_offset;
        const char *file = "";

        for (size_t k = 0; k < sections[s].sh_size / sizeof(*symbols); k++) {
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FILE)
                file = names + symbols[k].st_name;
            else if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC &&
                     symbols[k].st_value == value)
                return { stem_of(file),
                         plain_name(names + symbols[k].st_name) };
        }
    }
    throw unknown("no symbol for a kernel");
}

std::pair<std::string, std::string> name_of(const void *kernel)
{
    object o = { (uintptr_t)kernel, 0, "" };
    std::pair<std::string, std::string> found;
    struct stat st;
    void *image;
    int fd;

    if (dl_iterate_phdr(find_object, &o) == 0)
        throw unknown("a kernel of no file");
    fd = open(o.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        throw unknown(o.path + ": " + strerror(errno));
    image = mmap(nullptr, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (image == MAP_FAILED)
        throw unknown(o.path + ": " + strerror(errno));
    found = find_symbol((const char *)image, o.address - o.base);
    munmap(image, (size_t)st.st_size);
    return found;
}

library &library_of(const char *folder)
{
    static library all;
    static std::once_flag once;

    std::call_once(once, [&] { all.read_folder(folder); });
    return all;
}

} // namespace

const program &program_of(const void *kernel, const char *folder)
{
    library &all = library_of(folder);
    const std::lock_guard<std::mutex> hold(all.lock);
    auto &known = all.programs[kernel];

    if (known == nullptr) {
        const auto name = name_of(kernel);
        const auto found = all.entries.find(name);

        if (found == all.entries.end())
            throw unknown(std::string(folder) + "/" + name.first +
                          ".ptx has no " + name.second);
        const entry &e = found->second;

        known = std::make_unique<program>(parse(e.text, e.file, e.line));
    }
    return *known;
}

} // namespace ptx
